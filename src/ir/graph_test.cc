// The flat graph: its text form there and back, its hash, its checks, and graphs of any depth.
#include "ir/graph.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "base/error_for_tests.h"

namespace isotone::ir {
namespace {

std::string_view intern(std::string_view name) {
  static const std::vector<std::string> names = {"add", "topk", "odd_name_3", "leafless"};
  for (const std::string& n : names) {
    if (n == name) {
      return n;
    }
  }
  fail("unknown operation '{}'", name);
}

Attr random_attr(std::mt19937& rng) {
  static const double reals[] = {0.0,         -0.0, 1.0 / 3.0, 1e-320, -1e300, std::numeric_limits<double>::infinity(),
                                 std::nan("")};
  static const char* texts[] = {"", "plain", "gti,oi->gto", "a \"quoted\" \\ one", "two\nlines\n", "} : f32[1]", "\\n"};
  switch (rng() % 4) {
    case 0:
      return static_cast<std::int64_t>(rng()) * (rng() % 2 == 0 ? 1 : -2'000'000'000LL);
    case 1:
      return reals[rng() % std::size(reals)];
    case 2:
      return std::string(texts[rng() % std::size(texts)]);
    default: {
      Ints list(rng() % 4);
      for (auto& x : list) {
        x = static_cast<std::int64_t>(rng() % 7) - 3;
      }
      return list;
    }
  }
}

Graph random_graph(unsigned seed) {
  std::mt19937 rng(seed);
  Graph g;
  const auto type = [&] {
    Type t{static_cast<DType>(rng() % 8), {}};
    t.shape.resize(rng() % 4);
    for (auto& d : t.shape) {
      d = static_cast<std::int64_t>(rng() % 5);
    }
    return t;
  };
  for (unsigned i = 0; i < 1 + rng() % 3; ++i) {
    g.inputs.push_back(g.add_value(type()));
  }
  static const char* attr_names[] = {"axis", "key", "value", "shape"};
  for (unsigned n = 0; n < 1 + rng() % 12; ++n) {
    Instruction i{intern(rng() % 2 == 0 ? "topk" : "odd_name_3"),
                  {},
                  {},
                  {},
                  rng() % 5 == 0 ? static_cast<int>(rng() % 9) - 4 : 0};
    for (unsigned k = 0; k < rng() % 4; ++k) {
      i.inputs.push_back(rng() % 6 == 0 ? kNone : static_cast<ValueId>(rng() % g.types.size()));
    }
    for (unsigned k = 0; k < rng() % 4; ++k) {
      i.attrs.set(attr_names[k], random_attr(rng));
    }
    for (unsigned k = 0; k < 1 + rng() % 3; ++k) {
      i.outputs.push_back(g.add_value(type()));
    }
    g.code.push_back(std::move(i));
  }
  for (unsigned k = 0; k < 1 + rng() % 3; ++k) {
    g.outputs.push_back(static_cast<ValueId>(rng() % g.types.size()));
  }
  return g;
}

TEST(Graph, PrintAndParseAreInverse) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    const Graph g = random_graph(seed);
    verify(g);
    const std::string text = print(g);
    const Graph back = parse(text, intern);
    verify(back);
    ASSERT_EQ(print(back), text) << "seed " << seed;
    ASSERT_EQ(hash(back), hash(g)) << text;
  }
}

TEST(Graph, OneInstructionIsPrintedAsDocumented) {
  Graph g;
  g.inputs = {g.add_value({DType::f32, {2, 9}})};
  g.code.push_back({intern("topk"),
                    {{"k", std::int64_t{5}}},
                    {0},
                    {g.add_value({DType::f32, {2, 5}}), g.add_value({DType::i32, {2, 5}})},
                    0});
  g.outputs = {1};
  EXPECT_EQ(print(g), "input %0 : f32[2, 9]\n%1, %2 = topk(%0) {k = 5} : f32[2, 5], i32[2, 5]\noutput %1\n");
}

TEST(Graph, ParseErrorsNameTheLine) {
  const std::string head = "input %0 : f32[2]\n";
  EXPECT_NE(error_of([&] { parse(head + "%1 = nothing(%0) {} : f32[2]\n", intern); }).find("nothing"),
            std::string::npos);
  for (const char* bad :
       {"%1 = add(%7) {} : f32[2]", "%0 = add(%0) {} : f32[2]", "%1 = add(%0 {} : f32[2]",
        "%1 = add(%0) {a = } : f32[2]", "%1 = add(%0) {} : f32[2] more", "%1 = add(%0) {} : f32[2",
        "%1 = add(%0) {a = \"x} : f32[2]", "output %9", "none = add() {} : f32[]", "%1 = add(%0) {} : f99[2]",
        "input %999999999999 : f32[]", "% = add() {} : f32[]", "%1 = add(%0) {a = \"\\"}) {
    EXPECT_NE(error_of([&] { parse(head + bad + "\n", intern); }).find("line 2"), std::string::npos)
        << bad << ": " << error_of([&] { parse(head + bad, intern); });
  }
}

TEST(Graph, ParseOfMutatedTextThrowsOrGivesAGraph) {
  std::mt19937 rng(7);
  int parsed = 0;
  for (unsigned round = 0; round < 20000; ++round) {
    std::string text = print(random_graph(round % 50));
    for (unsigned k = 0; k < 1 + rng() % 4; ++k) {
      const std::size_t at = rng() % text.size();
      switch (rng() % 4) {
        case 0:
          text[at] = static_cast<char>(rng());
          break;
        case 1:
          text.erase(at, 1 + rng() % 5);
          break;
        case 2:
          text.insert(at, text.substr(rng() % text.size(), 8));
          break;
        default:
          text.insert(at, 1, "[]{}()%=,:\"\\0\n-9"[rng() % 16]);
      }
      text += text.empty() ? " " : "";
    }
    try {
      const Graph g = parse(text, intern);
      print(g);
      hash(g);
      verify(g);
      ++parsed;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(parsed, 100);
  EXPECT_LT(parsed, 20000);
}

TEST(Graph, HashDependsOnEverything) {
  Graph g;
  g.inputs = {g.add_value({DType::f32, {2, 9}}), g.add_value({DType::f32, {2, 9}})};
  g.code.push_back({intern("add"),
                    {{"a", 1.0}, {"s", std::string("x")}, {"l", Ints{1, 2}}},
                    {0, 1},
                    {g.add_value({DType::f32, {2, 9}})},
                    0});
  g.code.push_back({intern("topk"),
                    {{"k", std::int64_t{5}}},
                    {2},
                    {g.add_value({DType::f32, {2, 5}}), g.add_value({DType::i32, {2, 5}})},
                    0});
  g.outputs = {3, 4};
  const std::vector<std::pair<const char*, std::function<void(Graph&)>>> changes = {
      {"dtype", [](Graph& x) { x.types[0].dtype = DType::bf16; }},
      {"size", [](Graph& x) { x.types[2].shape[1] = 8; }},
      {"rank", [](Graph& x) { x.types[2].shape.push_back(1); }},
      {"order of inputs", [](Graph& x) { std::swap(x.inputs[0], x.inputs[1]); }},
      {"operation", [](Graph& x) { x.code[0].op = intern("odd_name_3"); }},
      {"real", [](Graph& x) { x.code[0].attrs.set("a", std::nextafter(1.0, 2.0)); }},
      {"kind of attribute", [](Graph& x) { x.code[0].attrs.set("a", std::int64_t{1}); }},
      {"text", [](Graph& x) { x.code[0].attrs.set("s", std::string("y")); }},
      {"list",
       [](Graph& x) {
         x.code[0].attrs.set("l", Ints{2, 1});
       }},
      {"one attribute more", [](Graph& x) { x.code[0].attrs.set("z", std::int64_t{0}); }},
      {"operands", [](Graph& x) { std::swap(x.code[0].inputs[0], x.code[0].inputs[1]); }},
      {"absent operand", [](Graph& x) { x.code[0].inputs[1] = kNone; }},
      {"region", [](Graph& x) { x.code[1].region = 1; }},
      {"order of outputs", [](Graph& x) { std::swap(x.outputs[0], x.outputs[1]); }},
      {"repeated output", [](Graph& x) { x.outputs.push_back(3); }},
      {"unused value",
       [](Graph& x) {
         x.add_value({DType::f32, {}});
       }},
  };
  Graph zero = g, minus = g;
  zero.code[0].attrs.set("a", 0.0);
  minus.code[0].attrs.set("a", -0.0);
  EXPECT_NE(hash(zero), hash(minus));
  EXPECT_FALSE(zero.code[0].attrs == minus.code[0].attrs);
  EXPECT_TRUE(zero.code[0].attrs == Graph(zero).code[0].attrs);
  std::vector<std::uint64_t> seen{hash(g)};
  EXPECT_EQ(hash(g), hash(Graph(g)));
  for (const auto& [what, change] : changes) {
    Graph other = g;
    change(other);
    for (const std::uint64_t h : seen) {
      EXPECT_NE(hash(other), h) << what;
    }
    seen.push_back(hash(other));
  }
}

TEST(Graph, VerifyRefusesWhatIsNotLegal) {
  Graph g;
  g.inputs = {g.add_value({DType::f32, {2}})};
  g.code.push_back({intern("add"), {}, {0, 0}, {g.add_value({DType::f32, {2}})}, 0});
  g.code.push_back({intern("topk"), {}, {1, kNone}, {g.add_value({DType::f32, {2}})}, 0});
  g.outputs = {2};
  verify(g);
  const auto broken = [&](const std::function<void(Graph&)>& change) {
    Graph other = g;
    change(other);
    return error_of([&] { verify(other); });
  };
  EXPECT_NE(broken([](Graph& x) { x.code[0].inputs[0] = 2; }).find("add reads value %2 before it is made"),
            std::string::npos);
  EXPECT_NE(broken([](Graph& x) { x.code[0].inputs[0] = 77; }).find("%77"), std::string::npos);
  EXPECT_NE(broken([](Graph& x) { x.code[0].inputs[0] = -2; }).find("%-2"), std::string::npos);
  EXPECT_NE(broken([](Graph& x) { x.code[1].outputs[0] = 1; }).find("made twice, the second time by topk"),
            std::string::npos);
  EXPECT_NE(broken([](Graph& x) { x.code[1].outputs[0] = 5; }).find("only 3 values"), std::string::npos);
  EXPECT_NE(broken([](Graph& x) { x.inputs.push_back(0); }).find("made twice"), std::string::npos);
  EXPECT_NE(broken([](Graph& x) { x.outputs.push_back(9); }).find("the output list reads"), std::string::npos);
  EXPECT_NE(broken([](Graph& x) { x.outputs[0] = kNone; }).find("output list"), std::string::npos);
  EXPECT_NE(broken([](Graph& x) { x.code.pop_back(); }).find("%2"), std::string::npos);
  EXPECT_NE(error_of([&] {
              verify(g, [](const Graph&, const Instruction& i) { require(i.op != "topk", "no {} here", i.op); });
            }).find("no topk here"),
            std::string::npos);
}

TEST(Graph, LastUses) {
  const Graph g = parse(
      "input %0 : f32[]\ninput %1 : f32[]\n%2 = add(%0, %0) {} : f32[]\n%3 = add(%2, %0) {} : f32[]\n%4 = add(%2, "
      "none) {} : f32[]\noutput %3\n",
      intern);
  EXPECT_EQ(last_uses(g), (std::vector<int>{1, -1, 2, 3, -1}));
}

TEST(Recording, FlattenTakesWhatIsNeededInRecordedOrder) {
  const Type t{DType::f32, {2}};
  const Value a = leaf(t, nullptr), b = leaf(t, nullptr);
  const NodePtr x = record("add", {}, {a, b}, {t, t});
  const NodePtr unused = record("add", {}, {a, a}, {t});
  const NodePtr y = record("topk", {}, {{x, 1}, Value()}, {t});
  const Flattened f = flatten({{y, 0}, {x, 0}}, {b, a});
  EXPECT_EQ(print(f.graph),
            "input %0 : f32[2]\ninput %1 : f32[2]\n%2, %3 = add(%1, %0) {} : f32[2], f32[2]\n%4 = topk(%3, none) {} : "
            "f32[2]\noutput %4\noutput %2\n");
  EXPECT_EQ(f.leaves, (Values{b, a}));
  EXPECT_NE(error_of([&] { flatten({{y, 0}}); }).find("placeholder"), std::string::npos);
}

TEST(Recording, ComputedValuesAreLeaves) {
  const Type t{DType::f32, {2}};
  const NodePtr x = record("add", {}, {leaf(t, nullptr)}, {t, t});
  x->storage = {std::make_shared<Storage>(), std::make_shared<Storage>()};
  const NodePtr y = record("topk", {}, {{x, 1}}, {t});
  const Flattened f = flatten({{y, 0}});
  EXPECT_EQ(f.graph.code.size(), 1U);
  EXPECT_EQ(f.leaves.size(), 2U);
  EXPECT_EQ(f.graph.code[0].inputs, (std::vector<ValueId>{f.graph.inputs[1]}));
}

TEST(Recording, RegionsNest) {
  const auto region = [] { return record("add", {}, {}, {{DType::f32, {}}})->region; };
  EXPECT_EQ(region(), 0);
  int outer = 0;
  {
    const RegionScope a;
    outer = region();
    {
      const RegionScope b;
      EXPECT_NE(region(), outer);
      EXPECT_NE(region(), 0);
    }
    EXPECT_EQ(region(), outer);
  }
  EXPECT_EQ(region(), 0);
  EXPECT_NE(outer, 0);
}

// Each of the ways in which a chain can hold its past: once, twice by one node, and by two nodes.
TEST(Recording, VeryLongChainsDoNotOverflowTheStack) {
  const Type t{DType::f32, {2}};
  constexpr int kLength = 100000;
  for (int kind = 0; kind < 3; ++kind) {
    const Value start = leaf(t, std::make_shared<Storage>());
    Value x = start, previous = start;
    for (int i = 0; i < kLength; ++i) {
      Values inputs = kind == 0 ? Values{x} : kind == 1 ? Values{x, x} : Values{x, previous};
      previous = x;
      x = Value(record("add", {}, std::move(inputs), {t}), 0);
    }
    previous = start;
    const Flattened f = flatten({x});
    EXPECT_EQ(f.graph.code.size(), static_cast<std::size_t>(kLength));
    verify(f.graph);
    const std::weak_ptr<Node> last = x.node(), second = x.node()->inputs[0].node();
    x = Value();
    EXPECT_TRUE(last.expired());
    EXPECT_TRUE(second.expired());
    EXPECT_EQ(start.node().use_count(), 3);  // start, previous and the flattened leaf
  }
}

TEST(Types, MessagesNameBothSides) {
  EXPECT_EQ(to_string(Type{DType::bf16, {2, 3}}), "bf16[2, 3]");
  EXPECT_EQ(broadcast_shapes({4, 1, 3}, {2, 1}, "add"), (Shape{4, 2, 3}));
  EXPECT_EQ(broadcast_shapes({0}, {1}, "add"), (Shape{0}));
  EXPECT_EQ(broadcast_shapes({}, {}, "add"), (Shape{}));
  const std::string error = error_of([] { broadcast_shapes({2, 3}, {2, 4}, "add"); });
  EXPECT_EQ(error.find("add: shapes [2, 3] and [2, 4] do not broadcast"), 0U) << error;
  EXPECT_EQ(normal_axis(-1, 3, "sum"), 2);
  EXPECT_EQ(error_of([] { normal_axis(3, 3, "sum"); }).find("sum: axis 3"), 0U);
  EXPECT_EQ(error_of([] { normal_axis(-4, 3, "sum"); }).find("sum: axis -4"), 0U);
}

TEST(Attributes, MissingOrOfAnotherKind) {
  const Attrs a{{"n", std::int64_t{1}}, {"s", std::string("x")}};
  EXPECT_EQ(a.integer("n"), 1);
  EXPECT_NE(error_of([&] { static_cast<void>(a.real("n")); }).find("'n'"), std::string::npos);
  EXPECT_NE(error_of([&] { static_cast<void>(a.ints("m")); }).find("'m'"), std::string::npos);
}

}  // namespace
}  // namespace isotone::ir
