# Builds the broker from the source of a release. `cargo xtask package` fills in version and
# checksum, and writes the formula into target/package.
class Hermod < Formula
  desc "Message broker for AMQP 0-9-1, AMQP 1.0, STOMP and MQTT"
  homepage "@HOMEPAGE@"
  url "@HOMEPAGE@/archive/refs/tags/v@VERSION@.tar.gz"
  sha256 "@SOURCE_SHA256@"
  license "Apache-2.0"

  depends_on "rust" => :build

  def install
    system "cargo", "install", *std_cargo_args(path: "crates/hermod")
    generate_completions_from_executable(bin/"hermod", "completions")
    system bin/"hermod", "man", man1
  end

  service do
    run [opt_bin/"hermod", "serve", "--data-dir", var/"lib/hermod"]
    keep_alive true
    log_path var/"log/hermod.log"
    error_log_path var/"log/hermod.log"
  end

  test do
    port = free_port
    pid = spawn bin/"hermod", "serve", "--data-dir", testpath/"data", "--ports-amqp", port.to_s,
                "--ports-stomp", "0", "--ports-mqtt", "0", "--ports-http", "0"
    30.times do
      break if quiet_system bin/"hermod", "health", "--data-dir", testpath/"data"

      sleep 1
    end
    system bin/"hermod", "queues", "declare", "q", "--data-dir", testpath/"data"
    system bin/"hermod", "publish", "q", "body", "--data-dir", testpath/"data"
    assert_equal "body\n", shell_output("#{bin}/hermod consume q --data-dir #{testpath}/data")
  ensure
    Process.kill "TERM", pid
    Process.wait pid
  end
end
