// Runs the tool as its users do: every mistake gives its text and its exit code.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

namespace {

namespace fs = std::filesystem;

struct Ran {
  int code = -1;
  std::string text;  // stdout and stderr
  bool has(const std::string& part) const { return text.find(part) != std::string::npos; }
};

// The tool is built beside the test.
Ran run_tool(const std::string& arguments) {
  static const fs::path tool = fs::read_symlink("/proc/self/exe").parent_path() / "attnfuse";
  Ran ran;
  FILE* pipe = popen((tool.string() + " " + arguments + " 2>&1").c_str(), "r");
  REQUIRE(pipe);
  char buffer[4096];
  while (const std::size_t got = fread(buffer, 1, sizeof buffer, pipe)) ran.text.append(buffer, got);
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

// A folder of its own for each test, removed after it.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("attnfuse_cli_test_" + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return (path_ / name).string();
  }
  std::string at(const std::string& name) const { return (path_ / name).string(); }
  std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path_ / name, std::ios::binary).rdbuf();
    return text.str();
  }
  std::size_t file_count() const {
    return std::size_t(std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_;
};

constexpr const char* kPlain =
    "attention plain {\n  heads 2  kv_heads 1  head_dim 16  dtype f32\n  mask causal\n}\n";

std::string little_endian_8(std::uint64_t value) {
  std::string bytes;
  for (int n = 0; n < 8; ++n) bytes += static_cast<char>(value >> (8 * n));
  return bytes;
}

}  // namespace

TEST_CASE("no command, an unknown command and an unknown option are wrong usage") {
  CHECK(run_tool("").code == 2);
  CHECK(run_tool("frobnicate").code == 2);
  CHECK(run_tool("targets --frobnicate").code == 2);
  CHECK(run_tool("emit llama3_8b").code == 2);
  CHECK(run_tool("--help").code == 0);
}

TEST_CASE("a value that an option does not take is shown with those it takes") {
  for (const auto& [arguments, text] : {
           std::pair("emit llama3_8b --target hip --rotation frob",
                     "--rotation: frob not in {fuse,query,key,both}"),
           std::pair("run llama3_8b --schedule frob", "--schedule: frob not in {automatic,portable,hopper}"),
           std::pair("emit llama3_8b --target hip --alignment 3", "--alignment: 3 not in {2,4,8,16}"),
           std::pair("conform --jobs 0", "--jobs: Value 0 not in range 1 to 64"),
           std::pair("bench rotation --groups 1,x", "--groups: Value x not in range 1 to 1024"),
       }) {
    const Ran ran = run_tool(arguments);
    CHECK(ran.code == 2);
    CHECK_MESSAGE(ran.has(text), ran.text);
  }
}

TEST_CASE("help shows what is taken when an option is left out, where that is something") {
  const std::string text = run_tool("conform --help").text;
  for (const char* part :
       {"--rotation TEXT:{auto,fuse,query,key,both}=auto", "--mode TEXT:{check,support,mutate,random}=check",
        "--jobs INT:INT in [1 - 64]=1", "--filter TEXT  ", "--random UINT  ",
        "--minutes INT:INT in [1 - 10000]=1", "--plugin TEXT ..."})
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
}

TEST_CASE("a syntax mistake is shown with its line and a caret") {
  const Folder folder;
  const std::string file = folder.write("bad.attn", "attention t {\n  heads 2\n  head_dim }\n}\n");
  const Ran ran = run_tool("show " + file);
  CHECK(ran.code == 1);
  CHECK_MESSAGE(ran.has(file + ":3:12: error["), ran.text);
  CHECK_MESSAGE(ran.has("\n             ^"), ran.text);
}

TEST_CASE("an unknown block is named, with what there is") {
  const Folder folder;
  const Ran ran = run_tool(
      "show " + folder.write("bad.attn", "attention t { heads 2 head_dim 16 dtype f16 score frob(1) }"));
  CHECK(ran.code == 1);
  CHECK_MESSAGE(ran.has("frob"), ran.text);
  CHECK_MESSAGE(ran.has("softcap"), ran.text);
}

TEST_CASE("a missing file is named, with the examples there are") {
  const Ran ran = run_tool("show no_such_file.attn");
  CHECK(ran.code == 1);
  CHECK_MESSAGE(ran.has("error[file.read]: cannot read 'no_such_file.attn'"), ran.text);
  CHECK_MESSAGE(ran.has("llama3_8b"), ran.text);
}

TEST_CASE("a folder or an empty file is no spec") {
  const Folder folder;
  CHECK(run_tool("show " + folder.at("")).code == 1);
  CHECK(run_tool("show " + folder.write("empty.attn", "")).code == 1);
}

TEST_CASE("a spec comes from standard input too") {
  const Folder folder;
  const Ran ran = run_tool("show - < " + folder.write("plain.attn", kPlain));
  CHECK(ran.code == 0);
  CHECK_MESSAGE(ran.has("scores"), ran.text);
}

TEST_CASE("an unknown target is named, with those there are") {
  const Ran ran = run_tool("emit llama3_8b --target cuda:sm_12");
  CHECK(ran.code == 1);
  CHECK_MESSAGE(ran.has("cuda:sm_12"), ran.text);
  CHECK_MESSAGE(ran.has("cuda:sm_90a"), ran.text);
}

TEST_CASE("an unknown stage is named, with those there are") {
  const Ran ran = run_tool("show llama3_8b --after frobnicate");
  CHECK(ran.code == 1);
  CHECK_MESSAGE(ran.has("there is no stage 'frobnicate'"), ran.text);
  CHECK_MESSAGE(ran.has("simplify"), ran.text);
}

TEST_CASE("a broken shape is explained") {
  for (const char* shape : {"b=2", "sq", "sq=-1", "sq=1,colour=3", "sq=99999999999"}) {
    const Ran ran = run_tool(std::string("explain llama3_8b --target hip:gfx942 --shape ") + shape);
    CHECK(ran.code == 1);
    CHECK_MESSAGE(ran.has("error[shape.syntax]"), ran.text);
  }
}

TEST_CASE("the gradient graph of a program is shown, and what it cannot be derived for is said") {
  const Ran ran = run_tool("show llama3_8b --after differentiate");
  CHECK(ran.code == 0);
  CHECK(ran.has("upstream do : f32 [batch, heads, sq, v_head_dim]"));
  CHECK(ran.has("output dq"));
  CHECK(run_tool("show llama3_8b --after differentiate --dot").has("digraph"));
  Folder folder;
  const Ran integer = run_tool(
      "show " + folder.write("ids.attn",
                             "attention t { heads 2 head_dim 16 dtype f16 param n : i32 grad mask j > n }"));
  CHECK(integer.code == 1);
  CHECK(integer.has("error[tensor.grad]: \"n\" is i32, which has no gradient"));
}

TEST_CASE("every example can be shown, drawn and emitted for every backend") {
  for (const char* target : {"cuda:sm_90a", "hip:gfx942", "spirv"}) {
    const Ran ran = run_tool(std::string("emit llama3_8b --target ") + target);
    CHECK_MESSAGE(ran.code == 0, ran.text);
    CHECK(ran.has("llama3_8b"));
  }
  CHECK(run_tool("show llama3_8b --dot").has("digraph"));
  CHECK(run_tool("show llama3_8b --latex").has("\\begin{aligned}"));
  CHECK(run_tool("show diff_transformer --latex").has("k'_{2} &= "));
  CHECK(run_tool("explain diff_transformer --target cuda:sm_90a")
            .has("not hopper: it has room for the scores and the output of one score head, not of two"));
  CHECK(run_tool("show llama3_8b --time-passes").has(" ms"));
}

TEST_CASE("emit writes source, launch.json and a C header that compiles") {
  const Folder folder;
  const Ran ran = run_tool("emit llama3_8b --target hip:gfx942 -o " + folder.at("out"));
  REQUIRE_MESSAGE(ran.code == 0, ran.text);
  std::string header;
  for (const auto& entry : fs::directory_iterator(folder.at("out")))
    if (entry.path().extension() == ".h") header = entry.path().string();
  REQUIRE_FALSE(header.empty());
  CHECK(std::system(("c++ -fsyntax-only -x c++ " + header + " -Wno-pragma-once-outside-header").c_str()) ==
        0);
}

TEST_CASE("emit writes every kernel of a rotation") {
  const Ran ran = run_tool("emit llama3_8b --target cuda:sm_90a --rotation both");
  CHECK(ran.code == 0);
  for (const char* kernel :
       {"transform_query_llama3_8b(", "transform_key_llama3_8b(", "attention_llama3_8b("})
    CHECK(ran.has(kernel));
  CHECK(ran.has("// k is what transform_key_llama3_8b writes to k_transformed"));
  CHECK(run_tool("emit llama3_8b --target cuda:sm_90a --rotation auto").code == 2);
}

TEST_CASE("explain predicts the time of every rotation and says which is chosen") {
  const Ran ran = run_tool("explain llama3_8b --target spirv:generic --shape b=1,sq=4096,skv=4096");
  CHECK(ran.code == 0);
  for (const char* row : {"rotation, us", "  fuse", "  query", "  key", "  both", "  key + cache", "choice"})
    CHECK(ran.has(row));
  CHECK(!run_tool("explain mpt --target spirv:generic").has("rotation, us"));
}

TEST_CASE("explain says where key bounds come from data") {
  CHECK(run_tool("explain packed_documents --target spirv:generic").has("by a kernel ahead of attention"));
  CHECK(!run_tool("explain llama3_8b --target spirv:generic").has("by a kernel ahead of attention"));
}

TEST_CASE("explain and emit say what a storage form asks for") {
  const Ran explained = run_tool("explain llama3_paged --target cuda:sm_90a");
  CHECK(explained.code == 0);
  CHECK_MESSAGE(
      explained.has("storage    ragged, paged(page_size = 16): lengths and places of sequences from "
                    "cu_seqlens_q, page_table, seqused_k"),
      explained.text);
  CHECK(!run_tool("explain llama3_8b --target cuda:sm_90a").has("storage "));
  const Folder folder;
  CHECK(run_tool("emit llama3_paged --target hip:gfx942 -o " + folder.at("kernel")).code == 0);
  const std::string json = folder.read("kernel/attention_llama3_paged.launch.json");
  CHECK(json.find("floor(total_q / block_q) + batch") != std::string::npos);
  CHECK(json.find("\"max_pages\"") != std::string::npos);
}

TEST_CASE("run takes lengths of sequences where the program's storage has them") {
  const Folder folder;
  const std::string plain = folder.write("plain.attn", kPlain);
  CHECK(run_tool("run " + plain + " --lengths 1/2,3/4 --target spirv").has("error[run.lengths]"));
  CHECK(run_tool("run " + plain + " --lengths 1,2 --target spirv").has("error[case.syntax]"));
  CHECK(run_tool("run " + plain + " --lengths 1/2 --shape b=1,sq=2,skv=3").has("error[run.inputs]"));
}

TEST_CASE("bench rotation refuses groups that do not divide the heads") {
  const Ran ran = run_tool("bench rotation --heads 6 --groups 1,4 --target spirv:generic");
  CHECK(ran.code == 1);
  CHECK(ran.has("bench.group"));
}

TEST_CASE("emit into a place that cannot be written says so") {
  const Folder folder;
  const std::string file = folder.write("file", "x");
  const Ran ran = run_tool("emit llama3_8b --target hip:gfx942 -o " + file + "/below");
  CHECK(ran.code == 1);
  CHECK_MESSAGE(ran.has("error[file.write]"), ran.text);
}

TEST_CASE("the table of blocks and of targets is printed, also as Markdown") {
  CHECK(run_tool("blocks").has("rope"));
  CHECK(run_tool("blocks --markdown").has("| "));
  CHECK(run_tool("targets").has("hip:gfx942"));
  CHECK(run_tool("targets --markdown").has("| `hip:gfx942` |"));
}

TEST_CASE("conform refuses a broken case line and a filter that nothing matches") {
  CHECK(run_tool("conform --case 'x sq=1' --list").has("error[case.syntax]"));
  CHECK(run_tool("conform --case 'x sq=1' --list").code == 1);
  CHECK(run_tool("conform --filter no_such_text --list").has("error[conform.no-case]"));
  CHECK(run_tool("conform --mode frobnicate").code == 2);
  for (const char* shard : {"5/5", "1", "-1/4", "0/0", "1/2x"})
    CHECK(run_tool(std::string("conform --list --shard ") + shard).has("error[conform.shard]"));
}

TEST_CASE("conform lists the cases that a filter selects") {
  const Ran ran = run_tool("conform --list --filter 'window b=1' --seed 77");
  CHECK(ran.code == 0);
  CHECK(ran.has("seed=77 :: attention"));
  CHECK_FALSE(ran.has("shapes b="));
}

TEST_CASE("a target without device is a diagnostic, not a crash") {
  const Ran ran = run_tool("conform --target hip:gfx942 --filter 'window b=1'");
  CHECK((ran.code == 0 || ran.code == 1));
  if (ran.code == 1) CHECK_MESSAGE(ran.has("error["), ran.text);
}

TEST_CASE("hostile tensors are refused") {
  const Folder folder;
  const std::string spec = folder.write("plain.attn", kPlain);
  const std::pair<const char*, std::string> files[] = {
      {"empty", ""},
      {"short", "\x05"},
      {"huge_header", little_endian_8(std::uint64_t(1) << 62) + "{}"},
      {"truncated", little_endian_8(100) + "{\"q\":"},
      {"no_json", little_endian_8(4) + "@@@@"},
      {"past_end",
       little_endian_8(64) + R"({"q":{"dtype":"F32","shape":[1,2,3,16],"data_offsets":[0,384]}}  )"},
  };
  for (const auto& [name, bytes] : files) {
    const Ran ran =
        run_tool("run " + spec + " --inputs " + folder.write(std::string(name) + ".safetensors", bytes) +
                 " --outputs " + folder.at("y.safetensors"));
    CAPTURE(name);
    CHECK(ran.code == 1);
    CHECK_MESSAGE(ran.has("error["), ran.text);
    CHECK_FALSE(fs::exists(folder.at("y.safetensors")));
  }
}
