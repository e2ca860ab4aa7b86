// Rows of github.com/pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md (end of 2024): H100 with 96 GB of
// HBM2e at 2.4 TB/s and 500 W, eight a node, 400 Gb/s a GPU. The tables say batch and mesh; sequences of 8192 tokens
// are those of its recipes (train_configs/llama3_*.toml), as many micro-batches as pipeline ranks its default then
// (parallelisms/pipelining_utils.py). Two stages a rank where it interleaves: not said there, the least that does.
// Shapes: Grattafiori et al., 2024, table 3, and the models' config.json.
#include "train/simulate.h"

namespace isotone::train {
namespace {

const ModelShape kLlama8b{32, 4096, 14336, 4096, 1024, 128, 128256};
const ModelShape kLlama70b{80, 8192, 28672, 8192, 1024, 128, 128256};
const ModelShape kLlama405b{126, 16384, 53248, 16384, 1024, 128, 128256};

Workload workload(double sequences, const char* recompute) {
  Workload w;
  w.sequences = sequences;
  w.tokens = 8192;
  w.recompute = recompute;
  w.gathered_bytes = 2;  // FSDP2 in mixed precision gathers bf16, for the forward and again for the backward pass
  w.gathers = 2;
  w.logit_copies = 2;  // and their gradients
  w.overlap = true;
  return w;
}

MeshShape mesh(int data, int tensor, int pipeline, int interleave) {
  MeshShape m;
  m.data = data;
  m.tensor = tensor;
  m.pipeline = pipeline;
  m.interleave = interleave;
  return m;
}

}  // namespace

std::vector<PublishedRow> published_rows() {
  const double network = 400e9 / 8;
  const char* const chip = "H100-96GB";
  Workload seventy = workload(512, "layer"), large = workload(256, "layer");
  seventy.fp8 = large.fp8 = true;
  large.tensor_overlap = true;
  return {
      {"8B, FSDP 8", kLlama8b, chip, network, mesh(8, 1, 1, 1), workload(16, "half"), 5762, 82.4},
      {"8B, FSDP 128", kLlama8b, chip, network, mesh(128, 1, 1, 1), workload(256, "half"), 5605, 67.0},
      {"70B, FSDP 32, TP 8, fp8", kLlama70b, chip, network, mesh(32, 8, 1, 1), seventy, 829, 71.9},
      {"405B, FSDP 8, TP 8, PP 8, fp8, 1F1B", kLlama405b, chip, network, mesh(8, 8, 8, 1), large, 100, 82.5},
      {"405B, the same, interleaved", kLlama405b, chip, network, mesh(8, 8, 8, 2), large, 128, 72.7},
  };
}

}  // namespace isotone::train
