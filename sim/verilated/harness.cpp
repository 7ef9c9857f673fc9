// The kernel's Verilog beside a model of its memory, behind a C interface.
//
// Time passes in tick(): inputs are set with the clock low, handshakes are read, the clock rises.
// Memory answers a burst after a latency, at most so many words per cycle and port, and holds
// back any channel at random. What the AXI standard forbids a master is checked in each cycle.
// Defined before this text: PENSTOCK_PORTS(X) names the kernel's memory ports as X(a) X(b), and
// PENSTOCK_WORD_BYTES is how wide they are.

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "Vpenstock_kernel.h"
#include "verilated.h"

namespace {

constexpr std::size_t kWordBytes = PENSTOCK_WORD_BYTES;
constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kWholeWord = ~std::uint64_t{0} >> (64 - kWordBytes);  // strobes
constexpr std::size_t kBursts = 64;        // bursts that a port of the memory holds
constexpr int kLiteCycles = 10000;         // patience with the register file
constexpr std::uint8_t kSlaveError = 2;    // answers of the memory
constexpr std::uint8_t kDecodeError = 3;

using Word = std::array<std::uint8_t, kWordBytes>;

struct Region {
  std::uint64_t address;
  std::uint64_t bytes;
  std::uint8_t *data;  // null: every access is an error
  std::uint64_t ports;  // that reach it, a bit each
};

struct Burst {
  std::uint64_t address;
  unsigned words;
  std::uint8_t id;
  std::uint64_t due;  // cycle of the first answer
  unsigned done = 0;
  std::uint8_t answer = 0;
};

// A request or data channel as the kernel drives it, to see whether it keeps its promise.
struct Promise {
  bool waiting = false;
  std::array<std::uint64_t, 8> request{};
  Word word{};
};

// Signals of one port of the kernel.
struct Pins {
  QData *araddr, *awaddr;
  CData *arid, *arlen, *arsize, *arburst, *arvalid, *arready;
  CData *rid, *rresp, *rlast, *rvalid, *rready;
  CData *awid, *awlen, *awsize, *awburst, *awvalid, *awready;
  CData *wlast, *wvalid, *wready;
  CData *bid, *bresp, *bvalid, *bready;
  // Of a type that depends on the width.
  void *rdata;
  const void *wdata, *wstrb;
};

#define PENSTOCK_PINS(top, port)                                                               \
  Pins {                                                                                       \
    &(top).port##_ARADDR, &(top).port##_AWADDR, &(top).port##_ARID, &(top).port##_ARLEN,       \
        &(top).port##_ARSIZE, &(top).port##_ARBURST, &(top).port##_ARVALID,                    \
        &(top).port##_ARREADY, &(top).port##_RID, &(top).port##_RRESP, &(top).port##_RLAST,    \
        &(top).port##_RVALID, &(top).port##_RREADY, &(top).port##_AWID, &(top).port##_AWLEN,   \
        &(top).port##_AWSIZE, &(top).port##_AWBURST, &(top).port##_AWVALID,                    \
        &(top).port##_AWREADY, &(top).port##_WLAST, &(top).port##_WVALID,                      \
        &(top).port##_WREADY, &(top).port##_BID, &(top).port##_BRESP, &(top).port##_BVALID,    \
        &(top).port##_BREADY, &(top).port##_RDATA, &(top).port##_WDATA, &(top).port##_WSTRB    \
  }

struct Timing {
  unsigned latency;   // cycles from a request to its first answer
  double bandwidth;   // words per cycle and port and direction
  double stalls;      // share of cycles in which a channel is held back
};

class Memory {
 public:
  std::vector<Region> regions;

  std::uint8_t *find(std::uint64_t address, unsigned port, std::uint8_t &answer) const {
    for (const Region &region : regions) {
      if ((region.ports >> port & 1) == 0) continue;
      if (address < region.address || address + kWordBytes > region.address + region.bytes) continue;
      if (region.data == nullptr) {
        answer = kSlaveError;
        return nullptr;
      }
      return region.data + (address - region.address);
    }
    answer = kDecodeError;
    return nullptr;
  }
};

class Port {
 public:
  Port(Pins pins, const Timing &timing, const Memory &memory, std::mt19937_64 &random,
       std::string &violation, const char *name, unsigned number)
      : pins_(pins), timing_(timing), memory_(memory), random_(random), violation_(violation),
        name_(name), number_(number) {}

  // No answer yet.
  void silence() { *pins_.rvalid = *pins_.bvalid = 0; }

  // With the clock low, before the kernel's outputs settle.
  void drive(std::uint64_t cycle) {
    if (!violation_.empty()) {
      // The bus is stuck, so that no task ends whatever is polled meanwhile.
      *pins_.arready = *pins_.awready = *pins_.wready = 0;
      return;
    }
    *pins_.arready = reads_.size() < kBursts && !stall() && !held;
    *pins_.awready = writes_.size() + answers_.size() < kBursts && !stall() && !held;
    write_credit_ = refill(write_credit_);
    *pins_.wready = write_credit_ >= 1.0 && !stall() && !held;
    read_credit_ = refill(read_credit_);
    if (!*pins_.rvalid) offer(cycle);
    if (!*pins_.bvalid && !answers_.empty() && answers_.front().due <= cycle && !stall()) {
      *pins_.bvalid = 1;
      *pins_.bid = answers_.front().id;
      *pins_.bresp = answers_.front().answer;
    }
  }

  // With the clock low, after the kernel's outputs settled.
  void sample(std::uint64_t cycle) {
    promise(read_promise_, *pins_.arvalid, *pins_.arready,
            {*pins_.araddr, *pins_.arlen, *pins_.arid}, nullptr, "AR");
    promise(write_promise_, *pins_.awvalid, *pins_.awready,
            {*pins_.awaddr, *pins_.awlen, *pins_.awid}, nullptr, "AW");
    promise(data_promise_, *pins_.wvalid, *pins_.wready, {strobe(), *pins_.wlast},
            pins_.wdata, "W");
    taken_read_ = *pins_.rvalid && *pins_.rready;
    taken_answer_ = *pins_.bvalid && *pins_.bready;
    if (*pins_.arvalid && *pins_.arready) {
      reads_.push_back(burst(*pins_.araddr, *pins_.arlen, *pins_.arsize, *pins_.arburst,
                             *pins_.arid, cycle));
    }
    if (*pins_.awvalid && *pins_.awready) {
      writes_.push_back(burst(*pins_.awaddr, *pins_.awlen, *pins_.awsize, *pins_.awburst,
                              *pins_.awid, cycle));
    }
    if (*pins_.wvalid && *pins_.wready) write(cycle);
  }

  // With the clock high: take back what was taken.
  void release() {
    if (taken_read_) *pins_.rvalid = 0;
    if (taken_answer_) {
      *pins_.bvalid = 0;
      answers_.pop_front();
    }
  }

  bool held = false;  // takes no requests and no words

  std::uint64_t words_read() const { return words_read_; }
  std::uint64_t words_written() const { return words_written_; }

 private:
  bool stall() {
    return timing_.stalls > 0.0 &&
           std::uniform_real_distribution<double>(0.0, 1.0)(random_) < timing_.stalls;
  }

  std::uint64_t strobe() const {
    std::uint64_t bits = 0;
    std::memcpy(&bits, pins_.wstrb, (kWordBytes + 7) / 8);
    return bits;
  }

  double refill(double credit) const {
    credit += timing_.bandwidth;
    return credit > 2.0 ? 2.0 : credit;
  }

  void report(const char *what) {
    if (violation_.empty()) violation_ = std::string(name_) + ": " + what;
  }

  void promise(Promise &last, bool valid, bool ready, std::array<std::uint64_t, 8> request,
               const void *word, const char *channel) {
    if (last.waiting) {
      bool same = valid && request == last.request;
      if (word != nullptr) same = same && std::memcmp(word, last.word.data(), kWordBytes) == 0;
      if (!same) report((std::string(channel) + " changed before it was taken").c_str());
    }
    last.waiting = valid && !ready;
    last.request = request;
    if (word != nullptr && last.waiting) std::memcpy(last.word.data(), word, kWordBytes);
  }

  Burst burst(std::uint64_t address, unsigned length, unsigned size, unsigned kind,
              std::uint8_t id, std::uint64_t cycle) {
    unsigned words = length + 1;
    std::uint64_t last = address + std::uint64_t{words} * kWordBytes - 1;
    if (std::size_t{1} << size != kWordBytes) report("a burst of narrow words");
    if (kind != 1) report("a burst that is not INCR");
    if (address % kWordBytes != 0) report("a misaligned burst");
    if (address / kPageBytes != last / kPageBytes) report("a burst across 4 KiB");
    return Burst{address, words, id, cycle + timing_.latency + 1};
  }

  // The next word of a burst that is due; bursts of different IDs may overtake each other.
  void offer(std::uint64_t cycle) {
    if (reads_.empty() || read_credit_ < 1.0 || stall()) return;
    std::size_t chosen = 0;
    if (timing_.stalls > 0.0) {
      for (std::size_t k = 1; k < reads_.size(); ++k) {
        if (reads_[k].id != reads_.front().id) {
          if (random_() & 1) chosen = k;
          break;
        }
      }
    }
    Burst &next = reads_[chosen];
    if (next.due > cycle) return;
    std::uint8_t answer = 0;
    const std::uint8_t *data =
        memory_.find(next.address + std::uint64_t{next.done} * kWordBytes, number_, answer);
    if (data != nullptr) std::memcpy(pins_.rdata, data, kWordBytes);
    *pins_.rid = next.id;
    *pins_.rresp = answer;
    *pins_.rlast = next.done + 1 == next.words;
    *pins_.rvalid = 1;
    read_credit_ -= 1.0;
    ++words_read_;
    if (++next.done == next.words) reads_.erase(reads_.begin() + static_cast<long>(chosen));
  }

  void write(std::uint64_t cycle) {
    write_credit_ -= 1.0;
    ++words_written_;
    if (writes_.empty()) {
      report("a word without a burst");
      return;
    }
    Burst &current = writes_.front();
    std::uint8_t answer = 0;
    std::uint8_t *data =
        memory_.find(current.address + std::uint64_t{current.done} * kWordBytes, number_, answer);
    if (data != nullptr) std::memcpy(data, pins_.wdata, kWordBytes);
    if (answer > current.answer) current.answer = answer;
    if (strobe() != kWholeWord) report("a word with bytes left out");
    bool last = ++current.done == current.words;
    if (last != static_cast<bool>(*pins_.wlast)) report("WLAST is not with the last word");
    if (!last) return;
    current.due = cycle + timing_.latency + 1;
    answers_.push_back(current);
    writes_.pop_front();
  }

  Pins pins_;
  const Timing &timing_;
  const Memory &memory_;
  std::mt19937_64 &random_;
  std::string &violation_;
  const char *name_;
  unsigned number_;
  std::deque<Burst> reads_, writes_, answers_;
  Promise read_promise_, write_promise_, data_promise_;
  double read_credit_ = 0.0, write_credit_ = 0.0;
  bool taken_read_ = false, taken_answer_ = false;
  std::uint64_t words_read_ = 0, words_written_ = 0;
};

// A context whose designs begin with any values, as registers without reset do.
VerilatedContext *arbitrary(VerilatedContext &context, std::uint64_t seed) {
  context.randReset(2);
  context.randSeed(static_cast<int>(seed & 0x7FFFFFFE) + 1);  // 0 would be another seed each time
  return &context;
}

}  // namespace

struct Board {
  Board(unsigned latency, double bandwidth, double stalls, std::uint64_t seed)
      : timing{latency, bandwidth, stalls}, random(seed),
        top(std::make_unique<Vpenstock_kernel>(arbitrary(context, seed), "kernel")) {
#define PENSTOCK_PORT(port) \
  ports.emplace_back(PENSTOCK_PINS(*top, port), timing, memory, random, violation, #port, \
                     static_cast<unsigned>(ports.size()));
    PENSTOCK_PORTS(PENSTOCK_PORT)
    for (Port &port : ports) port.silence();
    top->s_axi_control_AWVALID = top->s_axi_control_WVALID = top->s_axi_control_ARVALID = 0;
    top->s_axi_control_BREADY = top->s_axi_control_RREADY = 0;
    top->ap_rst_n = 0;
    for (int k = 0; k < 4; ++k) tick();
    top->ap_rst_n = 1;
    tick();
  }

  ~Board() { top->final(); }

  void tick() {
    for (Port &port : ports) port.drive(cycle);
    top->ap_clk = 0;
    top->eval();
    if (top->ap_rst_n) {
      for (Port &port : ports) port.sample(cycle);
    }
    lite_address = top->s_axi_control_AWVALID && top->s_axi_control_AWREADY;
    lite_data = top->s_axi_control_WVALID && top->s_axi_control_WREADY;
    lite_answer = top->s_axi_control_BVALID && top->s_axi_control_BREADY;
    lite_request = top->s_axi_control_ARVALID && top->s_axi_control_ARREADY;
    lite_read = top->s_axi_control_RVALID && top->s_axi_control_RREADY;
    lite_value = top->s_axi_control_RDATA;
    top->ap_clk = 1;
    top->eval();
    for (Port &port : ports) port.release();
    ++cycle;
  }

  bool write(std::uint32_t address, std::uint32_t value) {
    top->s_axi_control_AWADDR = address;
    top->s_axi_control_AWVALID = 1;
    top->s_axi_control_WDATA = value;
    top->s_axi_control_WSTRB = 0xF;
    top->s_axi_control_WVALID = 1;
    top->s_axi_control_BREADY = 1;
    for (int k = 0; k < kLiteCycles; ++k) {
      tick();
      if (lite_address) top->s_axi_control_AWVALID = 0;
      if (lite_data) top->s_axi_control_WVALID = 0;
      if (lite_answer) {
        top->s_axi_control_BREADY = 0;
        return true;
      }
    }
    return false;
  }

  bool read(std::uint32_t address, std::uint32_t &value) {
    top->s_axi_control_ARADDR = address;
    top->s_axi_control_ARVALID = 1;
    top->s_axi_control_RREADY = 1;
    for (int k = 0; k < kLiteCycles; ++k) {
      tick();
      if (lite_request) top->s_axi_control_ARVALID = 0;
      if (lite_read) {
        top->s_axi_control_RREADY = 0;
        value = lite_value;
        return true;
      }
    }
    return false;
  }

  VerilatedContext context;
  Timing timing;
  Memory memory;
  std::mt19937_64 random;
  std::string violation;
  std::unique_ptr<Vpenstock_kernel> top;
  std::vector<Port> ports;
  std::uint64_t cycle = 0;
  bool lite_address = false, lite_data = false, lite_answer = false;
  bool lite_request = false, lite_read = false;
  std::uint32_t lite_value = 0;
};

extern "C" {

Board *penstock_open(unsigned latency, double bandwidth, double stalls, std::uint64_t seed) {
  return new Board(latency, bandwidth, stalls, seed);
}

void penstock_close(Board *board) { delete board; }

void penstock_map(Board *board, std::uint64_t address, std::uint64_t bytes, std::uint8_t *data,
                  std::uint64_t ports) {
  board->memory.regions.push_back({address, bytes, data, ports});
}

void penstock_unmap(Board *board) { board->memory.regions.clear(); }

// 0 where the register file does not answer.
int penstock_write(Board *board, std::uint32_t address, std::uint32_t value) {
  return board->write(address, value);
}

int penstock_read(Board *board, std::uint32_t address, std::uint32_t *value) {
  return board->read(address, *value);
}

// Run until the interrupt, but not for more than so many cycles; whether there was one.
int penstock_wait(Board *board, std::uint64_t cycles) {
  for (std::uint64_t k = 0; k < cycles; ++k) {
    if (board->top->__SYM__interrupt) return 1;
    board->tick();
  }
  return board->top->__SYM__interrupt;
}

void penstock_hold(Board *board, int port, int held) {
  board->ports[static_cast<std::size_t>(port)].held = held != 0;
}

std::uint64_t penstock_cycles(Board *board) { return board->cycle; }

std::uint64_t penstock_words(Board *board, int port, int written) {
  const Port &chosen = board->ports[static_cast<std::size_t>(port)];
  return written ? chosen.words_written() : chosen.words_read();
}

// What the kernel did that AXI forbids; empty if nothing.
const char *penstock_violation(Board *board) { return board->violation.c_str(); }

}  // extern "C"
