package transport

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"remshell/transport/dialback"
)

// The test binary stands in for mpiexec: called as a helper it sends a first line and then echoes its
// input. The first input may be a command.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "--helper" {
		fakeDialBackHelper(os.Args[3])
	}
	if len(os.Args) > 2 && strings.HasPrefix(os.Args[1], "--helper") {
		fakeHelper(os.Args[1], os.Args[2])
	}
	os.Exit(m.Run())
}

// fakeHelper ends by syscall.Exit: os.Exit takes a second with the race detector.
func fakeHelper(mode, build string) {
	fmt.Printf("hello %s %s\n", mode, build)
	order := make([]byte, 8)
	if _, err := io.ReadFull(os.Stdin, order); err != nil {
		syscall.Exit(0)
	}
	switch string(order) {
	case "exit  3\n":
		fmt.Fprintln(os.Stderr, "last words")
		syscall.Exit(3)
	case "orphans\n":
		leaveOrphans()
	case "session\n":
		fmt.Printf("%d %d\n", os.Getpid(), must(syscall.Getpgid(0)))
	case "umask  \n":
		fmt.Printf("%o\n", syscall.Umask(0))
	case "environ\n":
		fmt.Printf("%q\n", os.Environ())
	}
	io.Copy(os.Stdout, io.MultiReader(bytes.NewReader(order), os.Stdin))
	syscall.Exit(0)
}

// fakeDialBackHelper is a helper that connects back, sends its host and echoes its input, until its step is over.
func fakeDialBackHelper(host string) {
	invited, err := dialback.ReadJoinToken(os.Stdin)
	if err != nil {
		syscall.Exit(7)
	}
	if invited.Streams && os.Getenv("UNABLE") == host {
		ReportStaysOnStream(os.Stdout, syscall.ECONNREFUSED)
		fakeHelper("--helper", os.Args[2])
	}
	if os.Getenv("UNABLE") == host {
		ReportCannotDialBack(os.Stdout, host, syscall.ECONNREFUSED)
		syscall.Exit(7)
	}
	conn, err := dialback.DialBack(context.Background(), invited, host, netip.Addr{})
	if err != nil {
		ReportCannotDialBack(os.Stdout, host, err)
		syscall.Exit(7)
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		syscall.Exit(0)
	}()
	fmt.Fprintf(conn, "called %s\n", host)
	io.Copy(conn, conn)
	syscall.Exit(0)
}

// leaveOrphans starts a process in a session of its own and prints its number.
func leaveOrphans() {
	signal.Ignore(syscall.SIGTERM) // the child too: it must be killed
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	fmt.Printf("%d\n", cmd.Process.Pid)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// self returns the test binary, with a path that no node has.
func self(t testing.TB) HelperBinary {
	t.Helper()
	s, err := RunningBinary()
	if err != nil {
		t.Fatal(err)
	}
	s.Path = ""
	s.nodeDirs = []string{}
	return s
}

// longContext returns a context that ends a hanging test, long before go test does.
func longContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// dial connects to a host of which only the name is known.
func dial(t testing.TB, transport Transport, name string) (io.ReadWriteCloser, error) {
	return dialHost(t, transport, Host{Name: name})
}

// dialHost connects to a set of one host.
func dialHost(t testing.TB, transport Transport, host Host) (io.ReadWriteCloser, error) {
	t.Helper()
	results := transport.Dial(longContext(t), []Host{host})
	r := <-results
	if more, open := <-results; r.Index != 0 || open {
		t.Fatalf("of one host there is a result %d, and then %+v", r.Index, more)
	}
	return r.Stream, r.Err
}

// guarded closes a stream with the test, or when it hangs.
func guarded(t testing.TB, rw io.ReadWriteCloser) *Conn {
	context.AfterFunc(longContext(t), func() { rw.Close() })
	return rw.(*Conn)
}

// hello reads the first line of a fake helper and checks it.
func hello(t testing.TB, conn io.Reader, build string) {
	t.Helper()
	want := "hello --helper " + build + "\n"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Fatalf("helper says %q, %v; want %q", got, err, want)
	}
}

// echoes checks that all bytes come back as they were sent.
func echoes(t testing.TB, conn io.ReadWriter) {
	t.Helper()
	sent := make([]byte, 300_000)
	for i := range sent {
		sent[i] = byte(i * i >> 8)
	}
	go conn.Write(sent)
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("echo of %d bytes: %v, equal %v", len(sent), err, bytes.Equal(got, sent))
	}
}

// eventually polls until a condition holds.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); !is(); {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
		sleepContext(context.Background(), 2*time.Millisecond)
	}
}
