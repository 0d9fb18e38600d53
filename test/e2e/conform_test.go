//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"remshell/pmiserver/transcript"
)

/*
The conversations of testdata/pmi, which package pmiserver plays byte by byte, are played
here with the server that is shipped: mpiexec starts ranks that pass on what they hear, and
the test is what speaks behind them.

	test --- socket --- pmiplay --- PMI_FD --- helper, hub, ... of the real mpiexec

What a case says of the end of the job is the exit code here. What only a test's server can
be made to say is left out, by the words that it needs.
*/
func TestPMIConformance(t *testing.T) {
	player := bundledProgram(t, "pmiplay")
	files, err := filepath.Glob(filepath.Join(repoRoot, "testdata/pmi/*.pmi"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	played := 0
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		cases, err := transcript.ReadCases(filepath.Base(name), f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			if !isPlayable(c) {
				continue
			}
			played++
			t.Run(fmt.Sprintf("%s:%d", filepath.Base(name), c.Line), func(t *testing.T) {
				t.Parallel()
				newPMIReplay(t, c, player).playCase()
			})
		}
	}
	if played < 100 {
		t.Errorf("only %d cases", played)
	}
}

// isPlayable reports whether a case needs nothing but a job and its ranks: no spawned groups,
// which are real here, no connections by a port, and no server that was set up otherwise than
// mpiexec would.
func isPlayable(c transcript.Case) bool {
	j := c.Job
	if j.IDs != nil || j.Singleton || j.Spawned != nil || j.Mapping != "" || j.Conns > 0 {
		return false
	}
	for _, s := range c.Steps {
		switch s.Word {
		case "EXIT", "STARTED", "FAILED", "SPAWN", "REFUSED":
			return false
		}
		if bytes.Contains(s.Bytes, []byte("PMI_process_mapping")) {
			return false
		}
	}
	return differentEnds[c.Title] == ""
}

// differentEnds are cases that end in another way here, and why.
var differentEnds = map[string]string{
	"where nobody spawns":                                         "somebody does",
	"P20c PMI-2 where nobody spawns":                              "somebody does",
	"69a get_ranks2hosts where nobody knows the hosts":            "somebody does",
	"41b the longest line":                                        "with the name of a real job it is too long",
	"35b answers that were due before the barrier come before it": "which of two ranks is heard first, is chance",
}

// A pmiReplay is a job whose ranks are played.
type pmiReplay struct {
	t     *testing.T
	c     transcript.Case
	cmd   *exec.Cmd
	out   outputBuffer
	ended chan struct{}
	name  string // of the job, which cases call otherwise
	ranks []*bufio.ReadWriter
	conns []net.Conn
}

func newPMIReplay(t *testing.T, c transcript.Case, player string) *pmiReplay {
	th := &pmiReplay{t: t, c: c, ended: make(chan struct{})}
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	th.cmd = exec.CommandContext(ctx, binary, th.args(dir, player, l.Addr().String())...)
	th.cmd.Env = append(os.Environ(), "MPIEXEC_LEDGER="+ledgerIn(t, dir))
	th.cmd.Stdout, th.cmd.Stderr = &th.out, &th.out
	if err := th.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer cancel()
		th.cmd.Wait()
		l.Close() // nobody else will come
		close(th.ended)
	}()
	t.Cleanup(th.close)
	th.acceptRanks(l)
	return th
}

// ledgerIn makes a ledger of the test's own: cases may share CPUs.
func ledgerIn(t *testing.T, dir string) string {
	ledger := filepath.Join(dir, "ledger")
	if err := os.Mkdir(ledger, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(ledger, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return ledger
}

// args is the command line of a case: its nodes are names of this machine.
func (th *pmiReplay) args(dir, player, socket string) []string {
	j := th.c.Job
	var args []string
	if j.Universe > 0 {
		args = append(args, "-usize", strconv.Itoa(j.Universe))
	}
	if j.Nodes != nil {
		var hosts, where []string
		for _, n := range j.Nodes {
			for len(hosts) <= n {
				name := fmt.Sprint("node", len(hosts))
				if len(hosts) < len(j.Hosts) {
					name = j.Hosts[len(hosts)]
				}
				hosts = append(hosts, fmt.Sprintf("localhost alias=%s slots=%d\n", name, j.Size))
			}
			where = append(where, strconv.Itoa(n))
		}
		file := filepath.Join(dir, "hosts")
		if err := os.WriteFile(file, []byte(strings.Join(hosts, "")), 0o644); err != nil {
			th.t.Fatal(err)
		}
		args = append(args, "-f", file, "-rankmap", strings.Join(where, ","))
	}
	return append(args, sectionsOf(j, player, socket)...)
}

// sectionsOf returns the app contexts of a command line, one for each program of a case.
func sectionsOf(j transcript.Job, player, socket string) (args []string) {
	for first := 0; first < j.Size; {
		n := 1
		for first+n < j.Size && (j.Apps == nil || j.Apps[first+n] == j.Apps[first]) {
			n++
		}
		if first > 0 {
			args = append(args, ":")
		}
		args = append(args, "-n", strconv.Itoa(n), player, socket)
		first += n
	}
	return args
}

// acceptRanks waits for all ranks.
func (th *pmiReplay) acceptRanks(l net.Listener) {
	th.conns, th.ranks = make([]net.Conn, th.c.Job.Size), make([]*bufio.ReadWriter, th.c.Job.Size)
	for range th.c.Job.Size {
		conn, err := l.Accept()
		if err != nil {
			<-th.ended
			th.t.Fatalf("%v: %s", err, &th.out)
		}
		conn.SetDeadline(time.Now().Add(longTimeout))
		in := bufio.NewReader(conn)
		line, err := in.ReadString('\n')
		var rank int
		if _, bad := fmt.Sscan(line, &rank, &th.name); err != nil || bad != nil || rank >= len(th.ranks) {
			th.t.Fatalf("%q: %v, %v", line, err, bad)
		}
		th.conns[rank], th.ranks[rank] = conn, bufio.NewReadWriter(in, bufio.NewWriter(conn))
	}
}

// close ends the job, if it has not ended itself.
func (th *pmiReplay) close() {
	for _, conn := range th.conns {
		if conn != nil {
			conn.Close()
		}
	}
	th.cmd.Process.Signal(syscall.SIGTERM)
	<-th.ended
}

// playCase plays the case, up to the end of the job.
func (th *pmiReplay) playCase() {
	if !th.c.Job.Uninitialized {
		th.initRanks()
	}
	for _, s := range th.c.Steps {
		switch {
		case s.Word == "EOF":
			th.conns[s.Rank].(*net.UnixConn).CloseWrite()
		case s.FromRank:
			th.conns[s.Rank].Write(th.withJobName(s.Bytes))
		case s.Word == "":
			th.checkReceived(s.Rank, s.Bytes, fmt.Sprintf("line %d", s.Line))
		case s.Word == "∅", s.Word == "CLOSED":
		default:
			th.awaitEnd(s)
			return
		}
	}
	for rank, r := range th.ranks {
		if n := r.Reader.Buffered(); n > 0 {
			rest, _ := r.Peek(n)
			th.t.Errorf("rank %d was told %q besides", rank, rest)
		}
	}
}

// awaitEnd waits for the end of a job that a rank, or a fault of its, has ended.
func (th *pmiReplay) awaitEnd(s transcript.Step) {
	want := 1
	if s.Word == "KILL" {
		want = max(1, s.Code) // others still run: 0 would be their success (TRUST-33)
	}
	if th.c.Job.Size == 1 && s.Word == "KILL" {
		want = s.Code
	}
	<-th.ended
	if got := exitCode(th.cmd.ProcessState); got != want || s.Word == "KILL" && !strings.Contains(th.out.String(), string(s.Bytes)) {
		th.t.Errorf("line %d: exit %d, want %d: %s", s.Line, got, want, &th.out)
	}
}

// initRanks takes all ranks to where most cases begin.
func (th *pmiReplay) initRanks() {
	for rank, conn := range th.conns {
		says, told := "cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n"
		if th.c.Job.PMI2 {
			says = fmt.Sprintf("cmd=init pmi_version=2 pmi_subversion=0\n    23cmd=fullinit;pmirank=%d;", rank)
			told = fmt.Sprintf("cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n   113cmd=fullinit-response;rc=0;"+
				"pmi-version=2;pmi-subversion=0;rank=%d;size=%d;appnum=0;debugged=FALSE;pmiverbose=FALSE;", rank, len(th.conns))
		}
		conn.Write([]byte(says))
		th.checkReceived(rank, []byte(told), "init")
	}
}

// checkReceived compares what a rank is told next.
func (th *pmiReplay) checkReceived(rank int, bytes []byte, where string) {
	th.t.Helper()
	want := th.withJobName(bytes)
	got := make([]byte, 0, len(want))
	for len(got) < len(want) {
		b, err := th.ranks[rank].ReadByte()
		if err != nil {
			th.t.Fatalf("%s: rank %d: %v\n got %.1100q\nwant %.1100q\n%s", where, rank, err, got, want, &th.out)
		}
		if got = append(got, b); b != want[len(got)-1] {
			th.t.Fatalf("%s: rank %d\n got %.1100q ...\nwant %.1100q", where, rank, got, want)
		}
	}
}

var pmi2Frame = regexp.MustCompile(`(?s)^[ 0-9]{6}cmd=`)

// withJobName puts the name of the job in the place of that in the case. The length of a frame of
// PMI-2 is that of what it has then.
func (th *pmiReplay) withJobName(text []byte) []byte {
	old := regexp.MustCompile(`((?:kvsname|jobid)=)` + regexp.QuoteMeta(th.c.Job.Name) + `([ ;\n]|$)`)
	named := old.ReplaceAll(text, []byte("${1}"+th.name+"${2}"))
	if len(named) != len(text) && pmi2Frame.Match(text) {
		size := fmt.Sprintf("%6d", len(named)-6)
		if text[0] != ' ' {
			size = fmt.Sprintf("%-6d", len(named)-6)
		}
		copy(named, size)
	}
	return named
}
