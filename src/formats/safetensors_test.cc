// safetensors: round trips, every rule broken one by one, cuts at every byte, thousands of mutations.
#include "formats/safetensors.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "formats/file_builder_for_tests.h"
#include "formats/sharded.h"

namespace isotone {
namespace {

using testing::bytes_of;
using testing::Dice;
using testing::message_of;
using testing::mutate;
using testing::safetensors_bytes;

const std::string kGood =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
    R"("b":{"dtype":"BF16","shape":[],"data_offsets":[16,18]},"c":{"dtype":"U8","shape":[0,3],"data_offsets":[18,18]}})";

std::string refusal(const std::string& header, std::size_t data_bytes) {
  const std::string file = safetensors_bytes(header, std::string(data_bytes, 'x'));
  return message_of([&] { Safetensors s(bytes_of(file), "f"); });
}

std::string one(const std::string& entry) {
  return "{\"a\":" + entry + "}";
}

class SafetensorsFiles : public ::testing::Test {
 protected:
  SafetensorsFiles() {
    std::string pattern = ::testing::TempDir() + "/isotone_st_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~SafetensorsFiles() override { remove_all(folder_); }
  [[nodiscard]] std::string at(const std::string& name) const { return join_path(folder_, name); }

  static TensorView view(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                         const std::string& content) {
    return {{name, dtype, std::move(shape)}, bytes_of(content), nullptr};
  }

  std::string folder_;
};

TEST(Safetensors, ReadsScalarsAndEmptyTensors) {
  const std::string file = safetensors_bytes(kGood + "   ", std::string(18, 'x'));
  const Safetensors s(bytes_of(file), "f");
  ASSERT_EQ(s.entries().size(), 3U);
  EXPECT_EQ(s.metadata().at("format"), "pt");
  EXPECT_EQ(s.tensor("a").shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(s.tensor("b").elements(), 1);
  EXPECT_EQ(s.tensor("c").data.size(), 0U);
  EXPECT_EQ(message_of([&] { (void)s.tensor("d"); }), "f: no tensor 'd' among its 3");
}

TEST(Safetensors, HeaderAlone) {
  EXPECT_EQ(refusal("{}", 0), "(no error)");
  EXPECT_EQ(refusal("{}", 1), "f: 1 bytes after the last tensor belong to none");
}

TEST(Safetensors, LengthAndFormOfTheHeader) {
  const auto of_bytes = [](const std::string& file) { return message_of([&] { Safetensors s(bytes_of(file), "f"); }); };
  EXPECT_EQ(of_bytes(""), "f: not a safetensors file: 0 bytes, the header's length alone takes 8");
  EXPECT_EQ(
      of_bytes(testing::raw<std::uint64_t>(100'000'001)),
      "f: not a safetensors file: its first 8 bytes would mean a header of 100000001 bytes, the limit is 100000000");
  EXPECT_EQ(of_bytes(testing::raw<std::uint64_t>(3) + "{}"),
            "f: cut short: the header has 3 bytes, the file only 2 after its length");
  EXPECT_EQ(refusal("", 0), "f: the header does not begin with '{'");
  EXPECT_EQ(refusal(" {}", 0), "f: the header does not begin with '{'");
  EXPECT_EQ(refusal("{}\n", 0), "f: the header does not end with '}' and spaces");
  EXPECT_EQ(refusal("{\"a\":}", 0).find("f: the header is not valid JSON: "), 0U);
  EXPECT_EQ(refusal("{} {}", 0).find("f: the header is not valid JSON: "), 0U);
  EXPECT_EQ(refusal("{\"\xff\":{}}", 0).find("f: the header is not valid JSON: "), 0U);
}

TEST(Safetensors, EntriesBrokenOneByOne) {
  const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return one("{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}");
  };
  EXPECT_EQ(refusal(entry("\"F32\"", "[2]", "[0,8]"), 8), "(no error)");
  EXPECT_EQ(refusal(entry("\"F31\"", "[2]", "[0,8]"), 8), "f: tensor 'a': unknown dtype 'F31'");
  EXPECT_EQ(refusal(entry("3", "[2]", "[0,8]"), 8), "f: tensor 'a': 'dtype' does not allow a number");
  EXPECT_EQ(refusal(entry("\"F32\"", "2", "[0,8]"), 8), "f: tensor 'a': 'shape' does not allow a number");
  EXPECT_EQ(refusal(entry("\"F32\"", "[-2]", "[0,8]"), 8), "f: tensor 'a': 'shape' does not allow a negative number");
  EXPECT_EQ(refusal(entry("\"F32\"", "[2.0]", "[0,8]"), 8), "f: tensor 'a': 'shape' does not allow the number 2.0");
  EXPECT_EQ(refusal(entry("\"F32\"", "[[2]]", "[0,8]"), 8), "f: tensor 'a': 'shape' does not allow a list");
  EXPECT_EQ(refusal(entry("\"F32\"", "[null]", "[0,8]"), 8), "f: tensor 'a': 'shape' does not allow null");
  EXPECT_EQ(refusal(entry("\"F32\"", "[2]", "[0]"), 8), "f: tensor 'a': data_offsets needs two numbers, found 1");
  EXPECT_EQ(refusal(entry("\"F32\"", "[2]", "[0,8,9]"), 8), "f: tensor 'a': 'data_offsets' does not allow a number");
  EXPECT_EQ(refusal(entry("\"F32\"", "[2]", "[8,0]"), 8), "f: tensor 'a': data_offsets [8, 0] run backwards");
  EXPECT_EQ(refusal(entry("\"F32\"", "[2]", "[1,9]"), 9),
            "f: tensor 'a': data_offsets [1, 9] leave a hole after byte 0");
  EXPECT_EQ(refusal(entry("\"F32\"", "[2]", "[0,8]"), 7),
            "f: cut short: tensor 'a' ends at byte 8, the data has only 7");
  EXPECT_EQ(refusal(entry("\"F32\"", "[2]", "[0,8]"), 9), "f: 1 bytes after the last tensor belong to none");
  EXPECT_EQ(refusal(entry("\"F32\"", "[3]", "[0,8]"), 8),
            "f: tensor 'a': F32 of shape [3] needs 12 bytes, data_offsets give 8");
  EXPECT_EQ(refusal(entry("\"F32\"", "[4294967296,4294967296,4]", "[0,8]"), 8),
            "f: tensor 'a': the shape [4294967296, 4294967296, 4] is negative or too large");
  EXPECT_EQ(refusal(entry("\"F32\"", "[0,4294967296,4294967296]", "[0,0]"), 0),
            "f: tensor 'a': the shape [0, 4294967296, 4294967296] is negative or too large");
  EXPECT_EQ(refusal(entry("\"F64\"", "[4611686018427387904]", "[0,8]"), 8),
            "f: tensor 'a': the shape [4611686018427387904] is too large");
  EXPECT_EQ(refusal(entry("\"F32\"", "[2]", "[0,18446744073709551615]"), 8),
            "f: cut short: tensor 'a' ends at byte 18446744073709551615, the data has only 8");
  EXPECT_EQ(refusal(entry("\"F32\"", "[2]", "[0,18446744073709551616]"), 8).find("does not allow the number") !=
                std::string::npos,
            true);
  EXPECT_EQ(refusal(entry("\"F4\"", "[3]", "[0,1]"), 1), "f: tensor 'a': 3 elements of F4 do not fill whole bytes");
  std::string ones = "1";
  for (int i = 1; i < 33; ++i) {
    ones += ",1";
  }
  EXPECT_EQ(refusal(entry("\"F32\"", "[" + ones + "]", "[0,4]"), 4),
            "f: tensor 'a': shape with more than 32 dimensions or a dimension beyond 2^62");
}

TEST(Safetensors, KeysBrokenOneByOne) {
  EXPECT_EQ(refusal(one("{\"dtype\":\"U8\",\"shape\":[0]}"), 0), "f: tensor 'a': needs dtype, shape and data_offsets");
  EXPECT_EQ(refusal(one("{\"dtype\":\"U8\",\"dtype\":\"U8\"}"), 0), "f: tensor 'a': the key 'dtype' stands twice");
  EXPECT_EQ(refusal(one("{\"type\":\"U8\"}"), 0), "f: tensor 'a': unknown key 'type'");
  EXPECT_EQ(refusal(one("[]"), 0), "f: the value of 'a' must be an object, found a list");
  EXPECT_EQ(refusal(one("true"), 0), "f: the value of 'a' must be an object, found true or false");
  const std::string empty = "{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
  EXPECT_EQ(refusal("{\"a\":" + empty + ",\"a\":" + empty + "}", 0), "f: the key 'a' stands twice in the header");
  EXPECT_EQ(refusal("{\"__metadata__\":{\"k\":1}}", 0),
            "f: __metadata__ must map texts to texts, found a number at 'k'");
  EXPECT_EQ(refusal("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0), "f: the key 'k' stands twice in __metadata__");
  EXPECT_EQ(refusal("{\"__metadata__\":\"k\"}", 0), "f: the value of '__metadata__' must be an object, found a text");
  EXPECT_EQ(refusal("{\"__metadata__\":{\"k\":{}}}", 0),
            "f: __metadata__ must map texts to texts, found an object at 'k'");
}

TEST(Safetensors, OverlapsAndOrder) {
  const auto two = [](const std::string& a, const std::string& b) {
    return "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" + a +
           "},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" + b + "}}";
  };
  EXPECT_EQ(refusal(two("[0,4]", "[4,8]"), 8), "(no error)");
  EXPECT_EQ(refusal(two("[4,8]", "[0,4]"), 8), "(no error)");  // the header's own order is free
  EXPECT_EQ(refusal(two("[0,4]", "[3,7]"), 7),
            "f: tensor 'b': data_offsets [3, 7] overlap the tensor before, which ends at 4");
  EXPECT_EQ(refusal(two("[0,4]", "[0,4]"), 4),
            "f: tensor 'b': data_offsets [0, 4] overlap the tensor before, which ends at 4");
  EXPECT_EQ(refusal(two("[0,4]", "[5,9]"), 9), "f: tensor 'b': data_offsets [5, 9] leave a hole after byte 4");
}

TEST(Safetensors, ListsButDoesNotHoldOtherDtypes) {
  const std::string file =
      safetensors_bytes(one(R"({"dtype":"F64","shape":[1],"data_offsets":[0,8]})"), std::string(8, 'x'));
  const Safetensors s(bytes_of(file), "f");
  EXPECT_EQ(s.entries()[0].dtype_text, "F64");
  EXPECT_EQ(message_of([&] { (void)s.tensor("a"); }),
            "f: tensor 'a' has dtype F64, which Isotone cannot compute with; convert it to F32, BF16 or F16");
}

TEST(Safetensors, CutAtEveryByte) {
  const std::string file = safetensors_bytes(kGood, std::string(18, 'x'));
  for (std::size_t n = 0; n < file.size(); ++n) {
    const std::string cut = file.substr(0, n);
    EXPECT_NE(message_of([&] { Safetensors s(bytes_of(cut), "f"); }), "(no error)") << n;
  }
}

TEST(Safetensors, MutationsEndInAnErrorOrAValidFile) {
  const std::string file = safetensors_bytes(kGood, std::string(18, 'x'));
  Dice dice{0x9e3779b97f4a7c15ULL};
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string changed = mutate(file, dice);
    const std::string text = message_of([&] {
      const Safetensors s(bytes_of(changed), "f");
      std::uint64_t covered = 0;
      for (const SafetensorsEntry& e : s.entries()) {
        covered += s.data(e).size();
      }
      EXPECT_LE(covered, changed.size());
    });
    accepted += text == "(no error)" ? 1 : 0;
  }
  EXPECT_GT(accepted, 100);    // changes of the data itself
  EXPECT_LT(accepted, 10000);  // most changes break a rule
}

TEST_F(SafetensorsFiles, WriterRoundTripAlignedAndDeterministic) {
  const std::string f32(24, 'a');
  const std::string bf16(6, 'b');
  const std::string u8(3, 'c');
  const std::string i64(8, 'd');
  const std::vector<TensorView> tensors = {view("z", DType::u8, {3}, u8), view("y", DType::bf16, {3}, bf16),
                                           view("x", DType::f32, {2, 3}, f32), view("w", DType::i64, {}, i64),
                                           view("v", DType::boolean, {0}, "")};
  save_safetensors(at("1"), tensors, {{"format", "pt"}, {"quote", "\"\\\n"}});
  save_safetensors(at("2"), {tensors[3], tensors[0], tensors[4], tensors[2], tensors[1]},
                   {{"quote", "\"\\\n"}, {"format", "pt"}});
  EXPECT_EQ(read_text_file(at("1")), read_text_file(at("2")));
  const Safetensors s(at("1"));
  EXPECT_EQ(s.metadata().at("quote"), "\"\\\n");
  for (const TensorView& t : tensors) {
    const TensorView back = s.tensor(t.name);
    EXPECT_EQ(back.dtype, t.dtype);
    EXPECT_EQ(back.shape, t.shape);
    ASSERT_EQ(back.data.size(), t.data.size());
    EXPECT_TRUE(std::equal(back.data.begin(), back.data.end(), t.data.begin()));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(back.data.data()) % unit_bytes(t.dtype), 0U) << t.name;
  }
}

TEST_F(SafetensorsFiles, WriterRefusesWrongUse) {
  const std::string four(4, 'a');
  EXPECT_EQ(message_of([&] { save_safetensors(at("q"), {view("a", DType::f32, {2}, four)}); }),
            at("q") + ": tensor 'a': f32 of shape [2] needs 8 bytes, 4 were given");
  EXPECT_EQ(message_of([&] { save_safetensors(at("q"), {view("a", DType::q8_0, {32}, std::string(34, 'a'))}); }),
            "safetensors cannot hold q8_0 tensors; dequantise them to f32, bf16 or f16 first");
  EXPECT_EQ(message_of([&] {
              SafetensorsWriter w(at("q"), {{"a", DType::f32, {2}}});
              w.write(bytes_of(four));
              w.finish();
            }),
            at("q") + ": tensor 'a' and those after it were not written");
  EXPECT_EQ(message_of([&] {
              SafetensorsWriter w(at("q"), {{"a", DType::f32, {1}}});
              w.write(bytes_of(four));
              w.write(bytes_of(four));
            }),
            at("q") + ": more data than the tensors have");
  EXPECT_EQ(message_of([&] {
              SafetensorsWriter w(at("q"), {{"a", DType::f32, {1}}, {"a", DType::f32, {1}}});
            }),
            at("q") + ": tensor name 'a' is taken");
  EXPECT_TRUE(list_folder(folder_).empty());
}

TEST_F(SafetensorsFiles, ShardsRoundTrip) {
  std::vector<TensorSpec> specs;
  for (int i = 0; i < 7; ++i) {
    specs.push_back({"t" + std::to_string(i), DType::f32, {i + 1}});
  }
  std::string content;
  const auto source = [&](const TensorSpec& spec) {
    content = std::string(spec.bytes(), spec.name[1]);
    return bytes_of(content);
  };
  write_safetensors_folder(folder_, specs, source, {}, 40);
  EXPECT_TRUE(path_exists(at("model-00001-of-00004.safetensors")));
  {
    const SafetensorsFolder f(folder_);
    EXPECT_EQ(f.files().size(), 4U);
    EXPECT_EQ(f.names().size(), 7U);
    EXPECT_EQ(f.tensor("t6").data.size(), 28U);
    EXPECT_EQ(f.tensor("t6").data[27], std::byte{'6'});
  }
  write_safetensors_folder(folder_, specs, source, {}, 1000);
  EXPECT_FALSE(path_exists(at("model.safetensors.index.json")));
  EXPECT_EQ(SafetensorsFolder(folder_).names().size(), 7U);
}

TEST_F(SafetensorsFiles, HostileIndex) {
  const std::string four(4, 'a');
  save_safetensors(at("m.safetensors"), {view("a", DType::f32, {1}, four)});
  const auto with = [&](const std::string& index) {
    write_file_atomic(at("model.safetensors.index.json"), index);
    return message_of([&] { SafetensorsFolder f(folder_); });
  };
  const std::string p = at("model.safetensors.index.json");
  EXPECT_EQ(with(R"({"weight_map":{"a":"m.safetensors"}})"), "(no error)");
  for (const char* name : {"../m.safetensors", "/etc/m.safetensors", "x/../m.safetensors", "..\\\\m.safetensors",
                           ".safetensors", "config.json", "..", "", "m.safetensors\\u0000.safetensors"}) {
    EXPECT_NE(with(std::string(R"({"weight_map":{"a":")") + name + "\"}}").find("is refused: it must be the name of"),
              std::string::npos)
        << name;
  }
  EXPECT_EQ(with(R"({"weight_map":{"a":"n.safetensors"}})"),
            p + ": the shard n.safetensors is missing; fetch the model again");
  EXPECT_EQ(with(R"({"weight_map":{"b":"m.safetensors"}})"),
            p + ": the shard m.safetensors does not hold the tensor 'b'");
  EXPECT_EQ(with(R"({"weight_map":{"a":1}})"), p + ": weight_map['a'] must be a file name");
  EXPECT_EQ(with(R"({"weight_map":{"a":"m.safetensors","a":"m.safetensors"}})"),
            p + ": the key \"a\" stands twice in one object");
  EXPECT_EQ(with("[]"), p + ": needs an object 'weight_map'");
  EXPECT_EQ(with(std::string(100000, '[')), p + ": JSON nested more than 64 deep");
  EXPECT_EQ(with("{").find(p + ": not valid JSON: "), 0U);
}

}  // namespace
}  // namespace isotone
