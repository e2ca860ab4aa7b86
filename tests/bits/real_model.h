// SmolLM2-135M-Instruct and what PyTorch says of it, for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "backends/cpu/device.h"
#include "base/file.h"
#include "formats/model_files.h"
#include "tensor/tensor.h"

namespace isotone::bits {

/// The model's files and tests/goldens/smollm2.json, on the CPU. Red, not skipped, where the model is not there.
class RealModelTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string root = ISOTONE_SOURCE_DIR, path = root + "/.cache/models/smollm2-135m-instruct.gguf";
    ASSERT_TRUE(path_exists(path)) << path << " is not there; make setup fetches it";
    golden_ = nlohmann::json::parse(read_text_file(root + "/tests/goldens/smollm2.json"));
    set_default_device(cpu::make_cpu_device());
    files_ = open_model(path);
    text_ = golden_["score"]["ids"].get<std::vector<std::int32_t>>();
  }

  nlohmann::json golden_;
  std::shared_ptr<const ModelFiles> files_;
  std::vector<std::int32_t> text_;  ///< ids of the text that is scored
};

}  // namespace isotone::bits
