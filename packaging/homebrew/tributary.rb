# Homebrew's formula. packaging/release fills in the version and the checksum of the source's archive.
class Tributary < Formula
  desc "Fetches named, verified files from every source over every path"
  homepage "https://example.invalid/tributary"
  url "https://example.invalid/tributary/releases/tributary-@VERSION@.tar.gz"
  sha256 "@SHA256@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "rust" => :build

  def install
    system "cargo", "install", *std_cargo_args(path: "crates/cli")
    system bin/"trib", "man", "man"
    man1.install Dir["man/*.1"]
    man5.install Dir["man/*.5"]
    generate_completions_from_executable(bin/"trib", "completions")
  end

  service do
    run [opt_bin/"trib", "node", "--config", etc/"tributary/node.toml"]
    keep_alive successful_exit: false
    log_path var/"log/tributary.log"
    error_log_path var/"log/tributary.log"
  end

  test do
    assert_match "compared byte for byte", shell_output("#{bin}/trib demo --size 1MB")
  end
end
