// GGUF: all metadata types, every rule broken one by one, cuts at every byte, mutations, values against goldens made
// by the Python package `gguf` (tests/goldens/make_gguf_goldens.py).
#include "formats/gguf.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "base/error.h"
#include "formats/dequantise.h"
#include "formats/file_builder_for_tests.h"

namespace isotone {
namespace {

using testing::bytes_of;
using testing::Dice;
using testing::gguf_array;
using testing::gguf_text;
using testing::GgufBuilder;
using testing::message_of;
using testing::mutate;
using testing::raw;

const std::string kGoldens = std::string(ISOTONE_SOURCE_DIR) + "/tests/goldens";

std::string refusal(const std::string& file) {
  return message_of([&] { Gguf g(bytes_of(file), "f"); });
}

GgufBuilder small() {
  GgufBuilder b;
  b.text("general.architecture", "llama").number("n", 7).real("x", 0.5F);
  b.add("flags", GgufType::array, gguf_array(GgufType::boolean, 3, std::string("\1\0\1", 3)));
  b.add("words", GgufType::array, gguf_array(GgufType::text, 2, gguf_text("ab") + gguf_text("")));
  b.add("nested", GgufType::array,
        gguf_array(GgufType::array, 2,
                   gguf_array(GgufType::u8, 2, "\1\2") + gguf_array(GgufType::text, 1, gguf_text("z"))));
  b.tensor("a", {3, 2}, 0, std::string(24, 'x')).tensor("b", {32}, 3, std::string(20, 'y'));
  return b;
}

TEST(Gguf, ReadsASmallFile) {
  const std::string file = small().build();
  const Gguf g(bytes_of(file), "f");
  EXPECT_EQ(g.version(), 3U);
  EXPECT_EQ(g.require_metadata("general.architecture").as_text(), "llama");
  EXPECT_EQ(g.require_metadata("n").as_unsigned(), 7U);
  EXPECT_EQ(g.require_metadata("x").as_number(), 0.5);
  EXPECT_TRUE(g.require_metadata("flags").at(2).as_boolean());
  EXPECT_FALSE(g.require_metadata("flags").at(1).as_boolean());
  EXPECT_EQ(g.require_metadata("words").as_texts()[0], "ab");
  EXPECT_EQ(g.require_metadata("nested").nested[0].at(1).as_integer(), 2);
  EXPECT_EQ(g.require_metadata("nested").nested[1].as_texts()[0], "z");
  const TensorView a = g.tensor("a");
  EXPECT_EQ(a.shape, (std::vector<std::int64_t>{2, 3}));  // row-major
  EXPECT_EQ(a.data.size(), 24U);
  EXPECT_EQ(g.tensor("b").dtype, DType::q4_1);
  EXPECT_EQ(g.tensor("b").data[19], std::byte{'y'});
}

TEST(Gguf, Version2AndAlignment) {
  GgufBuilder b;
  b.version = 2;
  b.alignment = 64;
  b.number("general.alignment", 64).tensor("a", {1}, 0, "1234").tensor("b", {1}, 0, "5678");
  const std::string file = b.build();
  const Gguf g(bytes_of(file), "f");
  EXPECT_EQ(g.find_tensor("b")->offset, 64U);
  EXPECT_EQ(g.tensor("b").data[0], std::byte{'5'});
}

TEST(Gguf, AccessorsNameWhatIsThere) {
  const std::string file = small().build();
  const Gguf g(bytes_of(file), "f");
  EXPECT_EQ(message_of([&] { (void)g.require_metadata("none"); }), "f: the metadata 'none' is missing");
  EXPECT_EQ(message_of([&] { (void)g.require_metadata("n").as_text(); }),
            "GGUF metadata 'n' is u32, a text was expected");
  EXPECT_EQ(message_of([&] { (void)g.require_metadata("words").as_integer(); }),
            "GGUF metadata 'words' is an array of text, an integer was expected");
  EXPECT_EQ(message_of([&] { (void)g.require_metadata("x").as_unsigned(); }),
            "GGUF metadata 'x' is f32, an integer that is not negative was expected");
  EXPECT_EQ(message_of([&] { (void)g.require_metadata("flags").at(3); }),
            "GGUF metadata 'flags': element 3 of 3 was asked for");
  EXPECT_EQ(message_of([&] { (void)g.require_metadata("flags").as_texts(); }),
            "GGUF metadata 'flags' is an array of bool, an array of texts was expected");
  EXPECT_EQ(message_of([&] { (void)g.tensor("c"); }), "f: no tensor 'c' among its 2");
}

TEST(Gguf, HeaderBrokenOneByOne) {
  GgufBuilder b = small();
  b.magic = "GGML";
  EXPECT_EQ(refusal(b.build()), "f: not a GGUF file: it does not begin with 'GGUF'");
  b = small();
  b.version = 1;
  EXPECT_EQ(refusal(b.build()), "f: GGUF version 1, only 2 and 3 can be read");
  b.version = 0x03000000;
  EXPECT_EQ(refusal(b.build()), "f: a GGUF file for big-endian machines; convert it first");
  b = small();
  b.extra_tensors = std::int64_t{1} << 62;
  EXPECT_NE(refusal(b.build()).find("4611686018427387906 tensors do not fit in"), std::string::npos);
  b = small();
  b.extra_metadata = std::int64_t{1} << 62;
  EXPECT_NE(refusal(b.build()).find("4611686018427387910 metadata entries do not fit in"), std::string::npos);
  EXPECT_EQ(refusal(""), "f: cut short: the magic number at byte 0 needs 4 bytes, 0 are left");
}

TEST(Gguf, MetadataBrokenOneByOne) {
  const auto with = [](const std::string& key, std::uint32_t type, const std::string& value) {
    GgufBuilder b;
    b.add(key, static_cast<GgufType>(type), value + std::string(64, '\0'));
    return refusal(b.build());
  };
  EXPECT_EQ(with("k", 13, ""), "f: metadata 'k' has the unknown type 13");
  EXPECT_EQ(with("", 0, ""), "f: a metadata key is empty");
  EXPECT_EQ(with("k", 7, "\2"), "f: metadata 'k' is a boolean with the value 2");
  EXPECT_NE(with("k", 8, raw<std::uint64_t>(1000)).find("cut short: k at byte"), std::string::npos);
  EXPECT_NE(with("k", 8, raw<std::uint64_t>(~0ULL)).find("needs 18446744073709551615 bytes"), std::string::npos);
  EXPECT_NE(with("k", 9, gguf_array(GgufType::u32, std::uint64_t{1} << 62, "")).find("cut short: metadata 'k' has"),
            std::string::npos);
  EXPECT_NE(with("k", 9, gguf_array(GgufType::text, std::uint64_t{1} << 61, "")).find("cut short: metadata 'k' has"),
            std::string::npos);
  EXPECT_EQ(with("k", 9, gguf_array(static_cast<GgufType>(99), 1, "")), "f: metadata 'k' has the unknown type 99");
  std::string deep = gguf_array(GgufType::u8, 0, "");
  for (int i = 0; i < 4; ++i) {
    deep = gguf_array(GgufType::array, 1, deep);
  }
  EXPECT_EQ(with("k", 9, deep), "f: metadata 'k' nests arrays more than 4 deep");
  GgufBuilder twice;
  twice.number("k", 1).number("k", 2);
  EXPECT_EQ(refusal(twice.build()), "f: the metadata key 'k' stands twice");
  GgufBuilder long_key;
  long_key.number(std::string(65536, 'k'), 1);
  EXPECT_NE(refusal(long_key.build()).find("is 65536 bytes long, the limit is 65535"), std::string::npos);
  for (const std::uint32_t bad : {0U, 4U, 24U, 1U << 21}) {
    GgufBuilder alignment;
    alignment.number("general.alignment", bad);
    EXPECT_EQ(refusal(alignment.build()),
              "f: general.alignment is " + std::to_string(bad) + ", a power of two from 8 to 1048576 was expected");
  }
}

TEST(Gguf, ManyEmptyTextsAreLimited) {
  GgufBuilder b;
  const std::uint64_t n = (std::uint64_t{1} << 22) + 1;
  b.add("k", GgufType::array, gguf_array(GgufType::text, n, std::string(n * 8, '\0')));
  EXPECT_EQ(refusal(b.build()), "f: metadata 'k' brings the texts in arrays to 4194305, the limit is 4194304");
}

TEST(Gguf, ManyEntriesAreLimited) {
  GgufBuilder nested;
  std::string inner;
  for (int i = 0; i < 65537; ++i) {
    inner += gguf_array(GgufType::u8, 0, "");
  }
  nested.add("k", GgufType::array, gguf_array(GgufType::array, 65537, inner));
  EXPECT_EQ(refusal(nested.build()), "f: metadata 'k' brings the arrays in arrays to 65537, the limit is 65536");
  GgufBuilder tensors;
  tensors.extra_tensors = (1 << 20) + 1;
  tensors.data = std::string(std::size_t{32} << 20, '\0');
  EXPECT_EQ(refusal(tensors.build()), "f: 1048577 tensors and 0 metadata entries, the limits are 1048576 and 65536");
}

TEST(Gguf, TensorsBrokenOneByOne) {
  const auto with = [](std::string_view name, const std::vector<std::uint64_t>& dims, std::uint32_t type,
                       std::uint64_t offset) {
    GgufBuilder b;
    b.info(name, dims, type, offset);
    b.data = std::string(64, 'x');
    return refusal(b.build());
  };
  EXPECT_EQ(with("a", {16}, 0, 0), "(no error)");
  EXPECT_EQ(with("a", {}, 0, 0), "(no error)");
  EXPECT_EQ(with("a", {0, 5}, 0, 0), "(no error)");
  EXPECT_EQ(with("", {16}, 0, 0), "f: a tensor has an empty name");
  EXPECT_NE(with(std::string(257, 'n'), {16}, 0, 0).find("is 257 bytes long, the limit is 256"), std::string::npos);
  EXPECT_EQ(with("a", {1, 1, 1, 1, 1}, 0, 0), "f: tensor 'a' has 5 dimensions, the limit is 4");
  EXPECT_EQ(with("a", {~0ULL}, 0, 0), "f: tensor 'a': dimension 0 is 18446744073709551615");
  EXPECT_EQ(with("a", {1ULL << 40, 1ULL << 40}, 0, 0),
            "f: tensor 'a': the shape [1099511627776, 1099511627776] is negative or too large");
  EXPECT_EQ(with("a", {1ULL << 62}, 28, 0), "f: tensor 'a': the shape [4611686018427387904] is too large");
  EXPECT_EQ(with("a", {16}, 4, 0), "f: tensor 'a' has the unknown type 4");
  EXPECT_EQ(with("a", {16}, 2, 0), "f: tensor 'a': rows of 16 do not divide into Q4_0 blocks of 32");
  EXPECT_EQ(with("a", {8}, 0, 8), "f: tensor 'a': offset 8 is not a multiple of the alignment 32");
  EXPECT_EQ(with("a", {17}, 0, 0), "f: cut short: tensor 'a' has 68 bytes at offset 0, the data has only 64");
  EXPECT_EQ(with("a", {8}, 0, 64), "f: cut short: tensor 'a' has 32 bytes at offset 64, the data has only 64");
  EXPECT_EQ(with("a", {8}, 0, ~0ULL - 31),
            "f: cut short: tensor 'a' has 32 bytes at offset 18446744073709551584, the data has only 64");
  GgufBuilder overlap;
  overlap.info("a", {16}, 0, 0).info("b", {8}, 0, 32);
  overlap.data = std::string(64, 'x');
  EXPECT_EQ(refusal(overlap.build()), "f: tensors 'a' and 'b' overlap");
  GgufBuilder twice;
  twice.tensor("a", {1}, 0, "1234").tensor("a", {1}, 0, "1234");
  EXPECT_EQ(refusal(twice.build()), "f: the tensor 'a' stands twice");
}

TEST(Gguf, ListsButDoesNotHoldOtherTypes) {
  GgufBuilder b;
  b.tensor("a", {256}, 12, std::string(144, 'x'));
  const std::string file = b.build();
  const Gguf g(bytes_of(file), "f");
  EXPECT_EQ(g.tensors()[0].type_text, "Q4_K");
  EXPECT_EQ(g.tensors()[0].bytes, 144U);
  EXPECT_EQ(message_of([&] { (void)g.tensor("a"); }),
            "f: tensor 'a' has type Q4_K; Isotone computes with F32, F16, BF16, Q4_0, Q4_1 and Q8_0: use another file");
}

TEST(Gguf, CutAtEveryByte) {
  GgufBuilder b = small();
  b.data.resize(32 + 20);  // no padding after the last tensor
  const std::string file = b.build();
  EXPECT_EQ(refusal(file), "(no error)");
  for (std::size_t n = 0; n < file.size(); ++n) {
    const std::string cut = file.substr(0, n);
    EXPECT_NE(refusal(cut), "(no error)") << n;
  }
}

TEST(Gguf, MutationsEndInAnErrorOrAValidFile) {
  const std::string file = small().build();
  Dice dice{0x2545f4914f6cdd1dULL};
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string changed = mutate(file, dice);
    const std::string text = message_of([&] {
      const Gguf g(bytes_of(changed), "f");
      for (const GgufTensor& t : g.tensors()) {
        EXPECT_LE(g.data(t).size(), changed.size());
        if (t.dtype) {
          (void)dequantise(g.tensor(t.name));
        }
      }
    });
    accepted += text == "(no error)" ? 1 : 0;
  }
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 15000);
}

TEST(Gguf, GoldenMetadata) {
  const Gguf g(kGoldens + "/quant.gguf");
  EXPECT_EQ(g.require_metadata("test.u8").as_unsigned(), 200U);
  EXPECT_EQ(g.require_metadata("test.i8").as_integer(), -100);
  EXPECT_EQ(g.require_metadata("test.u16").as_unsigned(), 60000U);
  EXPECT_EQ(g.require_metadata("test.i16").as_integer(), -30000);
  EXPECT_EQ(g.require_metadata("test.i32").as_integer(), -2000000000);
  EXPECT_EQ(g.require_metadata("test.u64").as_unsigned(), (std::uint64_t{1} << 63) + 5);
  EXPECT_EQ(message_of([&] { (void)g.require_metadata("test.u64").as_integer(); }),
            "GGUF metadata 'test.u64' is u64, an integer was expected");
  EXPECT_EQ(message_of([&] { (void)g.require_metadata("test.i8").as_unsigned(); }),
            "GGUF metadata 'test.i8' is i8, an integer that is not negative was expected");
  EXPECT_EQ(g.require_metadata("test.i64").as_integer(), -(std::int64_t{1} << 62));
  EXPECT_EQ(g.require_metadata("test.f64").as_number(), 0.1);
  EXPECT_EQ(g.require_metadata("test.f32").as_number(), 0.5);
  EXPECT_TRUE(g.require_metadata("test.bool").as_boolean());
  EXPECT_EQ(g.require_metadata("test.text").as_text(), "grüße 你好");
  EXPECT_EQ(g.require_metadata("test.texts").as_texts().size(), 3U);
  EXPECT_EQ(g.require_metadata("test.ints").at(1).as_integer(), -2);
  EXPECT_EQ(g.require_metadata("test.floats").at(1).as_number(), 1.5);
  ASSERT_EQ(g.require_metadata("test.nested").nested.size(), 2U);
  EXPECT_EQ(g.require_metadata("test.nested").nested[0].at(1).as_integer(), 2);
}

TEST(Gguf, GoldenValuesBitForBit) {
  const Gguf g(kGoldens + "/quant.gguf");
  const std::string golden = read_text_file(kGoldens + "/quant.f32");
  std::size_t at = 0;
  for (const char* name : {"f32", "f16", "bf16", "q4_0", "q4_1", "q8_0"}) {
    const TensorView t = g.tensor(std::string(name) + ".weight");
    EXPECT_EQ(dtype_name(t.dtype), name);
    EXPECT_EQ(t.shape, (std::vector<std::int64_t>{6, 64}));
    const std::vector<float> values = dequantise(t);
    ASSERT_LE(at + values.size() * 4, golden.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      float expected;
      std::memcpy(&expected, golden.data() + at + 4 * i, 4);
      ASSERT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(expected))
          << name << " " << i << ": " << values[i] << " and " << expected;
    }
    at += values.size() * 4;
  }
  EXPECT_EQ(at, golden.size());
}

TEST(Dequantise, SizesMustAgreeAndEncodeRoundsOnce) {
  std::vector<float> out(32);
  EXPECT_EQ(message_of([&] { dequantise(DType::q8_0, bytes_of(std::string(33, 'x')), out); }),
            "32 elements of q8_0 need 34 bytes, 33 were given");
  out.resize(31);
  EXPECT_EQ(message_of([&] { dequantise(DType::q8_0, bytes_of(std::string(34, 'x')), out); }),
            "31 elements are not whole q8_0 blocks of 32");
  const std::vector<float> values = {1.0F, 1.00390625F, -3.5F};  // the second lies between two bf16
  const auto back = [&](DType dtype) {
    std::vector<float> result(3);
    dequantise(dtype, encode(dtype, values), result);
    return result;
  };
  EXPECT_EQ(back(DType::f32), values);
  EXPECT_EQ(back(DType::f16), values);
  EXPECT_EQ(back(DType::bf16), (std::vector<float>{1.0F, 1.0F, -3.5F}));
  EXPECT_EQ(message_of([&] { encode(DType::i8, values); }), "weights can be written as f32, bf16 or f16, not as i8");
}

TEST(RotaryRows, UnpermuteAndBack) {
  // Two heads of four rows, one byte a row: the file's order is 0 2 1 3 of the Hugging Face rows.
  const std::string file = "acbdACBD";
  const std::vector<std::byte> rows = unpermute_rotary_rows(bytes_of(file), 8, 2);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(rows.data()), 8), "abcdABCD");
  const std::vector<std::byte> again = permute_rotary_rows(rows, 8, 2);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(again.data()), 8), file);
  EXPECT_NE(message_of([&] { unpermute_rotary_rows(bytes_of(file), 8, 3); }), "(no error)");
  EXPECT_NE(message_of([&] { unpermute_rotary_rows(bytes_of(file), 6, 2); }), "(no error)");
  EXPECT_EQ(message_of([&] { unpermute_rotary_rows(bytes_of(file + "x"), 8, 2); }), "cannot reorder 9 bytes as 8 rows");
}

}  // namespace
}  // namespace isotone
