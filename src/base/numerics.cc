#include "base/numerics.h"

#include <atomic>
#include <cstdlib>

#include "base/error.h"

namespace isotone {
namespace {

constexpr NumericsProfile kAll[] = {NumericsProfile::pairdot_1, NumericsProfile::amx_1};

NumericsProfile choose() {
  const char* text = std::getenv("ISOTONE_NUMERICS");
  if (text == nullptr || *text == 0) {
    return NumericsProfile::pairdot_1;
  }
  try {
    return parse_numerics_profile(text);
  } catch (const Error& e) {
    throw e.in("ISOTONE_NUMERICS");
  }
}

std::atomic<NumericsProfile>& chosen() {
  static std::atomic<NumericsProfile> profile{choose()};
  return profile;
}

}  // namespace

std::string_view numerics_profile_name(NumericsProfile profile) {
  return profile == NumericsProfile::amx_1 ? "amx-1" : "pairdot-1";
}

std::vector<std::string> numerics_profile_names() {
  std::vector<std::string> names;
  for (const NumericsProfile profile : kAll) {
    names.emplace_back(numerics_profile_name(profile));
  }
  return names;
}

NumericsProfile parse_numerics_profile(std::string_view name) {
  for (const NumericsProfile profile : kAll) {
    if (numerics_profile_name(profile) == name) {
      return profile;
    }
  }
  fail("numerics profile '{}' is unknown; there are pairdot-1 (the default) and amx-1", name);
}

NumericsProfile numerics_profile() {
  return chosen().load(std::memory_order_relaxed);
}

void set_numerics_profile(NumericsProfile profile) {
  chosen().store(profile);
}

}  // namespace isotone
