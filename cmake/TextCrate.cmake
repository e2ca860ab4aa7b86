# isotone_text_crate: the Rust static library of crates/text, built by cargo. All presets share one cargo folder beside
# their build folders, because the crate's own build takes minutes and does not depend on the preset.
find_program(CARGO cargo HINTS $ENV{HOME}/.cargo/bin REQUIRED)
set(text_crate_folder ${CMAKE_SOURCE_DIR}/crates/text)
cmake_path(SET text_cargo_folder NORMALIZE ${CMAKE_BINARY_DIR}/../cargo)
set(text_crate_library ${text_cargo_folder}/release/libisotone_text.a)
file(GLOB text_crate_sources CONFIGURE_DEPENDS ${text_crate_folder}/src/*.rs)
add_custom_command(
  OUTPUT ${text_crate_library}
  COMMAND ${CARGO} build --quiet --release --locked --manifest-path ${text_crate_folder}/Cargo.toml --target-dir ${text_cargo_folder}
  COMMAND ${CMAKE_COMMAND} -E touch ${text_crate_library}
  DEPENDS ${text_crate_sources} ${text_crate_folder}/Cargo.toml ${text_crate_folder}/Cargo.lock
  COMMENT "cargo build crates/text"
  VERBATIM)
add_custom_target(isotone_text_crate_build DEPENDS ${text_crate_library})
add_library(isotone_text_crate STATIC IMPORTED GLOBAL)
set_target_properties(isotone_text_crate PROPERTIES
  IMPORTED_LOCATION ${text_crate_library}
  INTERFACE_LINK_LIBRARIES "${CMAKE_DL_LIBS};Threads::Threads;m")
add_dependencies(isotone_text_crate isotone_text_crate_build)
