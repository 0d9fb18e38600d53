package selftest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"remshell/pmiserver"
)

// runRing runs ranks in this process, with a PMI server, and returns their results.
func runRing(t *testing.T, size int, address func(rank int) string) *Results {
	t.Helper()
	info := pmiserver.Info{Name: "selftest", Size: size}
	for rank := range size {
		info.Ranks = append(info.Ranks, rank)
	}
	server := pmiserver.New(info, nil)
	results := NewResults()
	var all sync.WaitGroup
	var signals []chan os.Signal
	for rank := range size {
		ours, theirs := net.Pipe()
		all.Go(func() { server.Serve(t.Context(), rank, theirs) })
		mine := make(chan os.Signal, 1)
		signals = append(signals, mine)
		all.Go(func() {
			defer ours.Close()
			getenv := func(name string) string {
				return map[string]string{"PMI_RANK": strconv.Itoa(rank), "PMI_SIZE": strconv.Itoa(size), "MPIEXEC_HOST": fmt.Sprint("n", rank), "PMI_HOSTNAME": address(rank)}[name]
			}
			if err := Run(getenv, ours, strings.NewReader(Input+"\n"), results, mine); err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		})
	}
	signal := syscall.SIGUSR2
	if <-results.Linked() {
		signal = syscall.SIGUSR1
	}
	for _, s := range signals {
		s <- signal
	}
	all.Wait()
	return results
}

// The token goes round a ring of several ranks, and of a single one.
func TestTheTokenGoesRound(t *testing.T) {
	for _, size := range []int{1, 2, 5} {
		results := runRing(t, size, func(int) string { return "127.0.0.1" })
		if err := results.Err(); err != nil {
			t.Errorf("%d ranks: %v", size, err)
		}
		if hosts := results.Hosts(); len(hosts) != size || hosts[0] != "n0" {
			t.Errorf("%d ranks on %q", size, hosts)
		}
		if text := results.Text("n0"); !strings.HasPrefix(text, "selftest passed: "+strconv.Itoa(size)+" rank") || strings.Count(text, "\n") != 2 {
			t.Errorf("%d ranks: %q", size, text)
		}
	}
}

// A rank that cannot listen, and the rank before it, are reported. No rank waits for them.
func TestRanksThatCannotReachEachOther(t *testing.T) {
	results := runRing(t, 3, func(rank int) string {
		if rank == 1 {
			return "192.0.2.1" // an address of no machine
		}
		return "127.0.0.1"
	})
	var failed *Error
	if err := results.Err(); !errors.As(err, &failed) || failed.Text != "selftest: ranks cannot connect to each other by TCP" || failed.Remedy == "" || len(failed.Lines) != 2 ||
		failed.Lines[0] != "n0: rank 0 cannot connect to rank 1 on n1: the other rank does not listen on a port" || !strings.HasPrefix(failed.Lines[1], "n1: rank 1 cannot listen at 192.0.2.1: ") {
		t.Errorf("%+v", err)
	}
}

// A connection with a wrong secret is not accepted.
func TestAWrongSecretIsRejected(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	secret, from := newSecret(), make(chan net.Conn, 1)
	go acceptPrevious(ln, secret, from)
	stranger, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	io.WriteString(stranger, strings.Repeat("0", len(secret)))
	if n, err := stranger.Read(make([]byte, 1)); err == nil {
		t.Errorf("a stranger was answered with %d bytes", n)
	}
	next, err := dial(rankAddress{Address: ln.Addr().String(), Secret: secret, Host: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	(<-from).Close()
}

// Reports are evaluated, whatever else the ranks write.
func TestResults(t *testing.T) {
	line := func(step Step, rank int, more string) string {
		return fmt.Sprintf("%s{\"Step\":%q,\"Rank\":%d,\"Size\":2,\"Host\":\"n%d\"%s}\n", reportPrefix, step, rank, rank+1, more)
	}
	started := line(Started, 0, `,"Input":"selftest"`) + line(Started, 1, "")
	linked := line(Linked, 0, "") + line(Linked, 1, "")
	done := line(Done, 0, "") + line(Done, 1, "")
	for _, test := range []struct{ name, output, want string }{
		{"all is well", started + linked + done, ""},
		{"labels, motd, a line in pieces", "hello\n0: " + started + linked + "[1] " + done, ""},
		{"nothing", "", "selftest: the output of ranks is missing: only 0 of 0 ranks have reported that they ended"},
		{"no end of one", started + linked + line(Done, 0, ""), "selftest: the output of ranks is missing: only 1 of 2 ranks have reported that they ended"},
		{"twice the same is one", started + linked + line(Done, 0, "") + line(Done, 0, ""), "selftest: the output of ranks is missing: only 1 of 2 ranks have reported that they ended"},
		{"no input", line(Started, 0, "") + line(Started, 1, "") + linked + done, `selftest: rank 0 read "" from its standard input, not "selftest"`},
		{"a lost token", started + linked + line(Done, 0, `,"Err":"timeout"`), "selftest: n1: rank 0 cannot pass on the message that goes around the ring: timeout"},
		{"not connected", started + line(Linked, 0, "") + line(Linked, 1, `,"Err":"no route to host","Peer":"n1","Address":"10.0.0.1:7"`), "selftest: ranks cannot connect to each other by TCP"},
		{"ranks that there are not", reportPrefix + `{"Step":"done","Rank":7,"Size":2}` + "\n" + reportPrefix + `{"Step":"done","Rank":-1,"Size":2}` + "\n", "selftest: the output of ranks is missing: only 0 of 0 ranks have reported that they ended"},
	} {
		for _, piece := range []int{1, 7, 1 << 20} {
			r := NewResults()
			for rest := []byte(test.output); len(rest) > 0; {
				n := min(piece, len(rest))
				r.Write(rest[:n])
				rest = rest[n:]
			}
			got := ""
			if err := r.Err(); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("%s, by %d: %q, want %q", test.name, piece, got, test.want)
			}
		}
	}
}

// For any output, results stay within their limits and Err returns.
func FuzzResults(f *testing.F) {
	f.Add([]byte(reportPrefix + `{"Step":"linked","Rank":0,"Size":1,"Host":"n1"}` + "\n"))
	f.Add([]byte(strings.Repeat("x", 3*maxReportBytes) + "\n"))
	f.Fuzz(func(t *testing.T, output []byte) {
		r := NewResults()
		r.Write(output)
		r.Write(output)
		if r.Err() == nil && len(r.Hosts()) == 0 {
			t.Error("passed without a host")
		}
		if len(r.line) > maxReportBytes {
			t.Errorf("%d bytes of a line", len(r.line))
		}
	})
}
