// What is in a model file or folder: listings for people and scripts, and one hash over all tensors.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace isotone {

struct InspectedTensor {
  std::string name;
  std::string dtype;  ///< as the file says it: "BF16", "Q4_K"
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
  std::string file;  ///< name of the file that holds it
};

struct Inspection {
  std::string path;
  std::string format;                                         ///< "safetensors", "GGUF v3", "folder of safetensors"
  std::vector<std::pair<std::string, std::string>> metadata;  ///< key and JSON text (long arrays shortened), file order
  std::vector<InspectedTensor> tensors;                       ///< sorted by name
  std::uint64_t parameters = 0;                               ///< elements of all tensors
  std::uint64_t tensor_bytes = 0;
  std::uint64_t file_bytes = 0;
};

/// Of a .safetensors file, a .gguf file, or a folder that holds safetensors (with or without config.json). Dtypes that
/// Isotone cannot compute with are listed like others. Throws Error where the files break a rule of their format.
Inspection describe(const std::string& path);

/// One JSON object: path, format, metadata (values as JSON), tensors, parameters, tensor_bytes, file_bytes.
std::string to_json(const Inspection& inspection);

/// Lines for people; control characters in names and texts are escaped, so a file cannot play with the terminal.
std::string to_text(const Inspection& inspection);

/// SHA-256 over all tensors in the order of their names. Fed for each: name, a zero byte, dtype as listed, a zero byte,
/// shape as "[2, 3]", a zero byte, its bytes. Independent of file layout, sharding and metadata.
std::string sha256_of_tensors(const std::string& path);

}  // namespace isotone
