#include "dist/collectives.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/error.h"
#include "dist/agree.h"
#include "dist/in_process.h"

namespace isotone::dist {
namespace {

TEST(InProcess, MessagesArriveInOrder) {
  run_in_process(2, [](Communicator& r) {
    if (r.rank() == 0) {
      for (int i = 0; i < 100; ++i) {
        r.send(1, Message(static_cast<std::size_t>(i), std::byte{7}));
      }
    } else {
      for (std::size_t i = 0; i < 100; ++i) {
        EXPECT_EQ(r.receive(0).size(), i);
      }
    }
  });
}

TEST(InProcess, RanksThatDoDifferentThingsAreNamed) {
  const auto message_of = [](const std::function<void(Communicator&)>& body) -> std::string {
    try {
      run_in_process(2, body);
    } catch (const Error& e) {
      return e.what();
    }
    return "nobody noticed";
  };
  const std::string other = message_of([](Communicator& r) {
    r.calls().section("step 7");
    barrier(r);
    r.rank() == 0 ? static_cast<void>(all_gather(r, Message{})) : barrier(r);
  });
  EXPECT_NE(other.find("'step 7: all_gather"), std::string::npos) << other;
  EXPECT_NE(other.find("'step 7: barrier"), std::string::npos) << other;
  EXPECT_NE(other.find("src/dist/collectives_test.cc"), std::string::npos) << other;
  EXPECT_NE(other.find("call 1: step 7: barrier"), std::string::npos) << other;
  const std::string longer = message_of([](Communicator& r) { max_all_reduce(r, Floats(r.rank() == 0 ? 3 : 4)); });
  EXPECT_NE(longer.find("of 3 values"), std::string::npos) << longer;
  EXPECT_NE(longer.find("of 4 values"), std::string::npos) << longer;
  const std::string later = message_of([](Communicator& r) {
    r.calls().section(r.rank() == 0 ? "step 8" : "step 9");
    barrier(r);
  });
  EXPECT_NE(later.find("step 8"), std::string::npos) << later;
  EXPECT_NE(later.find("step 9"), std::string::npos) << later;
}

TEST(InProcess, AFailureEndsEveryWait) {
  std::atomic<int> ended = 0;
  try {
    run_in_process(4, [&](Communicator& r) {
      if (r.rank() == 2) {
        fail("no more paper");
      }
      try {
        static_cast<void>(r.receive(2));
      } catch (const Error&) {
        ++ended;
        throw;
      }
    });
    ADD_FAILURE() << "the failure was lost";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "rank 2: no more paper");
  }
  EXPECT_EQ(ended, 3);
  EXPECT_THROW(run_in_process(2, [](Communicator& r) { r.send(r.rank(), {}); }), Error);
  EXPECT_THROW(run_in_process(0, [](Communicator&) {}), Error);
}

TEST(Collectives, AnyNumberOfRanksWithOneSeveralOrNoNodes) {
  // An order that shows: left and right are written down as digits of a chain of fractions.
  const Join join = [](Floats l, const Floats& r) {
    for (std::size_t i = 0; i < l.size(); ++i) {
      l[i] = l[i] * 0.75F + r[i] * 1.25F;
    }
    return l;
  };
  for (const std::int64_t n : {1, 2, 3, 5, 6, 13}) {
    const ReductionTree tree(TreeKind::element, n);
    Floats whole;
    for (int ranks = 1; ranks <= 9; ++ranks) {
      run_in_process(ranks, [&](Communicator& r) {
        FloatPartials mine(tree);
        const Span part = tree.split(ranks)[static_cast<std::size_t>(r.rank())];
        for (std::int64_t i = part.begin; i < part.end; ++i) {
          mine.add({i, i + 1}, {static_cast<float>(i + 1), static_cast<float>(i * i)});
        }
        const Floats sum = tree_all_reduce(r, mine, join);
        if (ranks == 1) {
          whole = sum;
        }
        EXPECT_EQ(sum, whole) << n << " items, " << ranks << " ranks";
      });
    }
  }
}

TEST(Collectives, AMissingPartIsAnErrorOnEveryRank) {
  EXPECT_THROW(run_in_process(3,
                              [](Communicator& r) {
                                FloatPartials mine(ReductionTree(TreeKind::element, 3));
                                if (r.rank() != 1) {
                                  mine.add({r.rank(), r.rank() + 1}, {1.0F});
                                }
                                static_cast<void>(tree_all_reduce(r, mine));
                              }),
               Error);
}

TEST(Collectives, GatherMaximumAndExactSum) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    run_in_process(ranks, [&](Communicator& r) {
      const auto me = static_cast<float>(r.rank());
      const Floats all = all_gather(r, Floats(static_cast<std::size_t>(r.rank()), me));
      EXPECT_EQ(all.size(), static_cast<std::size_t>(ranks * (ranks - 1) / 2));
      EXPECT_EQ(max_all_reduce(r, {me, -me}), (Floats{static_cast<float>(ranks - 1), 0.0F}));
      ExactSum mine;
      mine.add(r.rank() == 0 ? 1e30F : 1e-30F);
      if (r.rank() == 0) {
        mine.add(-1e30F);
      }
      EXPECT_NEAR(exact_all_reduce(r, mine).round(), 1e-30 * (ranks - 1), 1e-36);
    });
  }
}

TEST(Collectives, BroadcastBarrierAndUnevenExchange) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    std::atomic<int> before = 0;
    run_in_process(ranks, [&](Communicator& r) {
      const auto message = [](int from, int to) {
        return Message(static_cast<std::size_t>(from * to), static_cast<std::byte>(16 * from + to));
      };
      for (int root = 0; root < ranks; ++root) {
        EXPECT_EQ(broadcast(r, root, r.rank() == root ? message(root, 3) : Message()), message(root, 3));
      }
      std::vector<Message> to_each;
      for (int to = 0; to < ranks; ++to) {
        to_each.push_back(message(r.rank(), to));
      }
      const std::vector<Message> from_each = all_to_all(r, to_each);
      const std::vector<Message> all = all_gather(r, message(r.rank(), 2));
      for (int from = 0; from < ranks; ++from) {
        EXPECT_EQ(from_each[static_cast<std::size_t>(from)], message(from, r.rank()));
        EXPECT_EQ(all[static_cast<std::size_t>(from)], message(from, 2));
      }
      ++before;
      barrier(r);
      EXPECT_EQ(before, ranks);
    });
  }
}

TEST(Agree, OneFailureIsEveryRanks) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    run_in_process(ranks, [&](Communicator& r) {
      const int last = ranks - 1;
      together(r, [] {});
      try {
        together(r, [&] { require(r.rank() != last, "no more ink"); });
        ADD_FAILURE() << "the failure was lost on rank " << r.rank();
      } catch (const Error& e) {
        EXPECT_EQ(e.what(), r.rank() == last ? "no more ink" : fmt::format("rank {}: no more ink", last));
      }
      EXPECT_TRUE(any_rank(r, r.rank() == last));
      EXPECT_FALSE(any_rank(r, false));
      EXPECT_TRUE(every_rank(r, true));
      EXPECT_EQ(every_rank(r, r.rank() != last), false);
      EXPECT_EQ(text_of_rank_0(r, r.rank() == 0 ? "here" : "there"), "here");
      EXPECT_EQ(texts_of_ranks(r, std::to_string(r.rank())).back(), std::to_string(last));
    });
  }
}

}  // namespace
}  // namespace isotone::dist
