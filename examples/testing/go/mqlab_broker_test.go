// A broker for tests: `pip install mqlab` brings the program. MQLAB names another one.
package example

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// startBroker returns HOST:PORT of a broker that ends with the test.
func startBroker(t *testing.T) string {
	t.Helper()
	program := os.Getenv("MQLAB")
	if program == "" {
		program = "mqlab"
	}
	command := append(strings.Fields(program), "broker", "--data="+t.TempDir(), "--sync=off", "--listen=tcp:127.0.0.1:0")
	broker := exec.Command(command[0], command[1:]...)
	broker.Stderr = os.Stderr
	output, err := broker.StdoutPipe()
	check(t, err)
	check(t, broker.Start())
	t.Cleanup(func() {
		check(t, broker.Process.Signal(syscall.SIGTERM))
		check(t, broker.Wait())
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal("the broker did not start")
	}
	line = strings.TrimSpace(line)
	return net.JoinHostPort("127.0.0.1", line[strings.LastIndex(line, ":")+1:])
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
