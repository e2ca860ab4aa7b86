// Pieces of a file tokenized on all threads, in order.
#pragma once

#include <string_view>

#include "data/document.h"

namespace isotone::data {

class PieceQueue {
 public:
  /// `encode` makes a document of a piece and is called on several threads; one without tokens is left out. `name`
  /// stands in front of its errors; `unit` is what pieces are counted by.
  PieceQueue(std::string name, std::string unit, std::function<Document(std::string_view)> encode,
             const DocumentSink& sink)
      : name_(std::move(name)), unit_(std::move(unit)), encode_(std::move(encode)), sink_(sink) {}

  /// The text must outlive the next call that flushes. `number`: of the line or row; 0 where there are none.
  void push(std::string_view text, std::int64_t number);
  /// Hands over what is left.
  void flush();
  [[nodiscard]] std::int64_t documents() const { return documents_; }

 private:
  struct Piece {
    std::string_view text;
    std::int64_t number;
  };
  std::string name_, unit_;
  std::function<Document(std::string_view)> encode_;
  const DocumentSink& sink_;
  std::vector<Piece> waiting_;
  std::size_t bytes_ = 0;
  std::int64_t documents_ = 0;
};

}  // namespace isotone::data
