// What a program is told to sum: BYTES, an array of so many, or NAME=BYTES,BYTES..., arrays that belong together.

#pragma once

#include <cstddef>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

struct Arrays {
  std::string key;            // as in the report
  std::vector<size_t> bytes;  // of each

  explicit Arrays(const std::string& text) : key(text.substr(0, text.find('='))) {
    std::istringstream sizes(text.substr(text.find('=') + 1));  // all of it if there is no name
    for (std::string size; std::getline(sizes, size, ',');) bytes.push_back(std::stoul(size));
  }

  size_t total() const { return std::accumulate(bytes.begin(), bytes.end(), size_t{0}); }
};
