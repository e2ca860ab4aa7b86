#include "dist/environment.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "base/error.h"
#include "dist/collectives.h"
#include "dist/meeting_point.h"

namespace isotone::dist {
namespace {

using namespace std::chrono_literals;
using Variables = std::map<std::string, std::string>;

RankEnvironment of(const Variables& variables) {
  return rank_environment([&](const char* name) -> const char* {
    const auto at = variables.find(name);
    return at == variables.end() ? nullptr : at->second.c_str();
  });
}

std::string fault_of(const Variables& variables) {
  try {
    of(variables);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Environment, LaunchersNames) {
  EXPECT_EQ(of({}).size, 1);
  EXPECT_EQ(of({{"RANK", ""}, {"WORLD_SIZE", ""}}).size, 1);
  const Variables meet{{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29500"}};
  const auto with = [&](Variables more) {
    more.insert(meet.begin(), meet.end());
    return of(more);
  };
  const RankEnvironment e = with({{"RANK", "3"}, {"WORLD_SIZE", "4"}});
  EXPECT_EQ(e.rank, 3);
  EXPECT_EQ(e.size, 4);
  EXPECT_EQ(e.host, "10.0.0.1");
  EXPECT_EQ(e.port, 29500);
  EXPECT_EQ(with({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}).rank, 1);
  EXPECT_EQ(with({{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "6"}}).rank, 5);
  // Who was started by torchrun inside of a Slurm job is the rank that torchrun says.
  EXPECT_EQ(with({{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}).rank, 3);
  EXPECT_EQ(with({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}}).port, 29501);
}

TEST(Environment, FaultsNameTheVariable) {
  EXPECT_NE(fault_of({{"RANK", "0"}}).find("WORLD_SIZE is not"), std::string::npos);
  EXPECT_NE(fault_of({{"SLURM_NTASKS", "2"}}).find("SLURM_PROCID is not"), std::string::npos);
  for (const char* bad : {"-1", "2", "x", "1x", "99999999999999999999", " 1"}) {
    EXPECT_NE(fault_of({{"RANK", bad}, {"WORLD_SIZE", "2"}}).find("RANK is '" + std::string(bad)), std::string::npos)
        << bad;
  }
  EXPECT_NE(fault_of({{"RANK", "0"}, {"WORLD_SIZE", "0"}}).find("WORLD_SIZE"), std::string::npos);
  EXPECT_NE(fault_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}}).find("MASTER_ADDR is not set"), std::string::npos);
  EXPECT_NE(
      fault_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "0"}}).find("MASTER_PO"),
      std::string::npos);
}

/// Calls `body` on a thread for each rank, over Gloo.
void over_gloo(int size, const std::function<void(Communicator&)>& body) {
  std::unique_ptr<MeetingPoint> probe;
  int port = 0;
  for (int p = 23000; port == 0; ++p) {  // one that is free
    try {
      probe = std::make_unique<MeetingPoint>("127.0.0.1", p);
      port = p;
    } catch (const Error&) {
    }
  }
  probe.reset();
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      try {
        const auto ranks_of_this = join_world({rank, size, "127.0.0.1", port}, 20s);
        body(*ranks_of_this);
      } catch (const std::exception& e) {
        ADD_FAILURE() << "rank " << rank << ": " << e.what();
      }
    });
  }
}

TEST(GlooRanks, MessagesInOrderOfAnySize) {
  over_gloo(3, [](Communicator& r) {
    for (const std::size_t n : {0U, 1U, 1000U, 3000000U, 0U, 7U}) {
      Message m(n, static_cast<std::byte>(r.rank() + 1));
      r.send((r.rank() + 1) % 3, m);
      const Message from = r.receive((r.rank() + 2) % 3);
      EXPECT_EQ(from, Message(n, static_cast<std::byte>((r.rank() + 2) % 3 + 1)));
    }
    // Sent long before anybody asks, and left behind by a rank that ends first.
    for (int i = 0; i < 200; ++i) {
      r.send((r.rank() + 1) % 3, Message(static_cast<std::size_t>(i * 100)));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50 * r.rank()));
    for (int i = 0; i < 200; ++i) {
      EXPECT_EQ(r.receive((r.rank() + 2) % 3).size(), static_cast<std::size_t>(i * 100));
    }
  });
}

TEST(GlooRanks, Collectives) {
  over_gloo(4, [](Communicator& r) {
    const ReductionTree tree(TreeKind::element, 4);
    FloatPartials mine(tree);
    mine.add({r.rank(), r.rank() + 1}, {static_cast<float>(r.rank()), 1.0F});
    EXPECT_EQ(tree_all_reduce(r, std::move(mine)), (Floats{6.0F, 4.0F}));
    EXPECT_EQ(max_all_reduce(r, {static_cast<float>(r.rank())}), Floats{3.0F});
  });
}

TEST(GlooRanks, DifferentCallsAreNamed) {
  over_gloo(2, [](Communicator& r) {
    try {
      r.rank() == 0 ? static_cast<void>(all_gather(r, Message{})) : barrier(r);
      ADD_FAILURE() << "nobody noticed";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(r.rank() == 0 ? "'barrier'" : "'all_gather'"), std::string::npos)
          << e.what();
    }
  });
}

TEST(MeetingPoint, BadGuestsHurtNobody) {
  std::unique_ptr<MeetingPoint> point;
  int port = 24000;
  for (; !point; ++port) {
    try {
      point = std::make_unique<MeetingPoint>("127.0.0.1", port);
    } catch (const Error&) {
    }
  }
  --port;
  const MeetingGuest guest("127.0.0.1", port, 2s);
  EXPECT_EQ(guest.own_address(), "127.0.0.1");
  for (const std::string& key : {std::string("a"), std::string(200, 'k')}) {
    guest.set(key, "1\n2 " + key);
    EXPECT_EQ(guest.get(key), "1\n2 " + key);
  }
  guest.set("empty", "");
  EXPECT_EQ(guest.get("empty"), "");
  EXPECT_THROW(guest.set("big", std::string(2 << 20, 'x')), Error);
  const MeetingGuest hasty("127.0.0.1", port, 100ms);
  EXPECT_THROW(static_cast<void>(hasty.get("never")), Error);
  EXPECT_EQ(guest.get("a"), "1\n2 a");
}

}  // namespace
}  // namespace isotone::dist
