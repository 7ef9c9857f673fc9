// The window join's Verilog behind a C interface: tuples with the cycles from which they are
// offered in, results and what became of each tuple out.
//
// Verilator writes the two underscores inside a port's name as ___05F.
//
// In each cycle inputs are set with the clock low, handshakes are read, and the clock rises.

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>

#include "Vpenstock_kernel.h"
#include "verilated.h"

namespace {

using Top = Vpenstock_kernel;

// Mirrored by Job in sim/window/verilated.py.
struct Job {
  // Per side: tuples, the cycle from which each is offered, their bytes one after the other.
  std::uint64_t count[2];
  const std::uint64_t *due[2];
  const std::uint8_t *data[2];
  // Entries of the truth tables, written first.
  std::uint64_t entries;
  const std::uint8_t *entry;
  std::uint64_t rows_a, rows_b, before, after, shed;
  // Both windows are empty before this cycle.
  std::uint64_t fill;
  // The output takes nothing in this share of cycles, nor ever if it is 1.
  double stalls;
  std::uint64_t seed;
  // The run ends when all is done, or after so many cycles.
  std::uint64_t limit;
  // Per side and tuple: cycle in which the input took it, in which it was written into its queue;
  // all ones where that did not happen.
  std::uint64_t *arrived[2], *admitted[2];
  // Words of results, and how many there is room for.
  std::uint8_t *results;
  std::uint64_t room;
  // The operator's own counters, as they lie in its port.
  std::uint8_t *counters;
  // What came of it.
  std::uint64_t words, cycles, idle, waits;
};

template <class Port>
void put(Port &port, const std::uint8_t *bytes) {
  std::memcpy(&port, bytes, sizeof(Port));
}

// Inputs that only some builds have.
template <class T>
void set_optional(T &top, const Job &job) {
  if constexpr (requires { top.before; }) {
    top.before = job.before;
    top.after = job.after;
  }
}

template <class T, class Tick>
void write_entries(T &top, const Job &job, Tick tick) {
  if constexpr (requires { top.i_entry___05Fvalid; }) {
    constexpr std::size_t size = sizeof(top.i_entry___05Fpayload);
    top.i_entry___05Fvalid = 1;
    for (std::uint64_t n = 0; n < job.entries; ++n) {
      put(top.i_entry___05Fpayload, job.entry + n * size);
      tick();
    }
    top.i_entry___05Fvalid = 0;
  }
}

// False if there is no room for the results or a rule of the output stream is broken.
bool run(Job &job) {
  VerilatedContext context;
  context.randReset(2);  // registers without a reset begin with anything
  context.randSeed(1);
  auto top = std::make_unique<Top>(&context);
  std::mt19937_64 random(job.seed);
  std::uniform_real_distribution<double> share(0, 1);
  const auto tick = [&] {
    top->clk = 1;
    top->eval();
    top->clk = 0;
    top->eval();
  };
  top->clk = top->i_a___05Fvalid = top->i_b___05Fvalid = top->o___05Fready = 0;
  top->rows_a = top->rows_b = 0;
  top->rst = 1;
  top->eval();
  tick();
  tick();
  top->rst = 0;
  top->shed = job.shed;
  set_optional(*top, job);
  write_entries(*top, job, tick);

  constexpr std::size_t sizes[2] = {sizeof(top->i_a___05Fpayload), sizeof(top->i_b___05Fpayload)};
  constexpr std::size_t word = sizeof(top->o___05Fpayload);
  std::uint64_t next[2] = {0, 0}, waiting[2] = {0, 0};
  std::uint8_t offered[word];
  bool stalled = false;
  job.words = job.waits = job.idle = 0;
  for (job.cycles = 0; job.cycles < job.limit; ++job.cycles) {
    top->rows_a = job.cycles < job.fill ? 0 : job.rows_a;
    top->rows_b = job.cycles < job.fill ? 0 : job.rows_b;
    const bool ended = next[0] == job.count[0] && next[1] == job.count[1];
    bool valid[2];
    for (int side = 0; side < 2; ++side)
      valid[side] = next[side] < job.count[side] && job.due[side][next[side]] <= job.cycles;
    top->i_a___05Fvalid = valid[0];
    top->i_b___05Fvalid = valid[1];
    if (valid[0]) put(top->i_a___05Fpayload, job.data[0] + next[0] * sizes[0]);
    if (valid[1]) put(top->i_b___05Fpayload, job.data[1] + next[1] * sizes[1]);
    top->o___05Fready = job.stalls <= 0 || share(random) >= job.stalls;
    top->eval();
    for (int side = 0; side < 2; ++side) {
      if (top->o_admitted >> side & 1) job.admitted[side][waiting[side]] = job.cycles;
      const bool ready = side ? top->i_b___05Fready : top->i_a___05Fready;
      if (!(valid[side] && ready)) continue;
      job.arrived[side][next[side]] = job.cycles;
      if (!(top->o_dropped >> side & 1)) waiting[side] = next[side];
      ++next[side];
    }
    if (stalled && !(top->o___05Fvalid && !std::memcmp(offered, &top->o___05Fpayload, word))) return false;
    stalled = top->o___05Fvalid && !top->o___05Fready;
    if (stalled) std::memcpy(offered, &top->o___05Fpayload, word);
    if (top->o___05Fvalid && top->o___05Fready) {
      if (job.words == job.room) return false;
      std::memcpy(job.results + job.words++ * word, &top->o___05Fpayload, word);
    }
    job.waits += top->o_state_a == 2 || top->o_state_b == 2;
    // A tuple that was taken in this cycle is not in the operator yet.
    job.idle = ended && top->o_idle;
    if (job.idle) break;
    tick();
  }
  // What happened in the last cycle has been counted when it is over; nothing more is offered.
  top->i_a___05Fvalid = top->i_b___05Fvalid = 0;
  tick();
  std::memcpy(job.counters, &top->o_counters, sizeof top->o_counters);
  return true;
}

}  // namespace

extern "C" {

int window_run(Job *job) { return run(*job); }

unsigned window_sizes(int what) {
  if (what == 0) return sizeof(Top::i_a___05Fpayload);
  if (what == 1) return sizeof(Top::i_b___05Fpayload);
  return sizeof(Top::o___05Fpayload);
}
}
