// A share of each step's grains is computed a second time by another worker and compared bit for bit: a chip that
// computes wrongly without saying so is caught and named.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/batch.h"
#include "dist/communicator.h"
#include "tensor/transforms.h"

namespace isotone::train {

struct AuditOptions {
  double share = 0.0;  ///< of all grains; 0: none
  /// How a process that is alone computes for the second time: calls the body where other kernels are in use. Empty: it
  /// computes as it did. Of several ranks the next one does it.
  std::function<void(const std::function<void()>&)> elsewhere;
};

/// "1/100", or "1": more than 0, at most 1. Throws Error saying so.
double parse_share(std::string_view text);

class Audit {
 public:
  /// Losses [grain, token] of a part of the global batch, then its gradients.
  using Compute = std::function<Tensors(const data::Batch& part)>;

  /// `names`: of the gradients. What is chosen depends on `seed`, the step and how grains are grouped alone.
  Audit(AuditOptions options, std::uint64_t seed, std::vector<std::string> names);

  void start(std::int64_t step);
  /// What this rank computed of some grains at once (as Compute gives it); noted where they are chosen.
  void note(const data::Batch& part, const Tensors& results);
  /// Every rank calls it after its last note. Each computes again what the rank before it noted. Throws Error, on every
  /// rank, naming step, grains, the first value that differs, both workers, and which of them is wrong where a vote of
  /// all workers can tell. Returns how many grains were computed again, by all ranks together.
  std::int64_t check(const data::GlobalBatch& batch, const Compute& compute, dist::Communicator& ranks) const;

 private:
  struct Record {
    std::int64_t first = 0, grains = 0;
    std::vector<std::uint64_t> losses, gradients;  // hashes, by grain and by tensor
    friend bool operator==(const Record&, const Record&) = default;
  };
  static Record record_of(const data::Batch& part, const Tensors& results);
  static std::vector<std::vector<Record>> exchange(const std::vector<Record>& mine, dist::Communicator& ranks);
  Record again(const data::GlobalBatch& batch, const Record& noted, const Compute& compute, bool elsewhere) const;
  [[nodiscard]] std::string difference(const Record& noted, const Record& checked) const;
  [[nodiscard]] std::string verdict(const std::vector<Record>& tries, const data::GlobalBatch& batch,
                                    const Compute& compute, int producer, dist::Communicator& ranks) const;

  AuditOptions options_;
  std::uint64_t seed_;
  std::vector<std::string> names_;
  std::int64_t step_ = 0;
  std::vector<Record> noted_;
};

}  // namespace isotone::train
