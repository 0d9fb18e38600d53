//go:build linux

package helper

import (
	"encoding/binary"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
)

func littleEndian() bool { return binary.NativeEndian.Uint16([]byte{1, 0}) == 1 }

// vectors returns the rows of a file in testdata, split at the bars.
func vectors(t *testing.T, name string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		row := strings.Split(line, "|")
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
		rows = append(rows, row)
	}
	return rows
}

func TestUnanswered(t *testing.T) {
	if !littleEndian() {
		t.Log("the vectors are of a little-endian machine")
		return
	}
	for _, row := range vectors(t, "tcp.txt") {
		local, remote, _ := strings.Cut(row[0], " ")
		got := unanswered("  sl  local_address rem_address\n   "+row[2]+"\n",
			netip.MustParseAddrPort(local), netip.MustParseAddrPort(strings.TrimSpace(remote)))
		if got != (row[1] == "yes") {
			t.Errorf("%s: unanswered = %v\n%s", row[0], got, row[2])
		}
	}
}

func TestProcAddr(t *testing.T) {
	if !littleEndian() {
		return
	}
	for text, want := range map[string]string{
		"0100580A:0016":                         "10.88.0.1:22",
		"00000000:0000":                         "0.0.0.0:0",
		"00000000000000000000000001000000:E127": "[::1]:57639",
		"0000000000000000FFFF00000100007F:B5AC": "127.0.0.1:46508",
		"B80D01200000000067452301EFCDAB89:0016": "[2001:db8::123:4567:89ab:cdef]:22",
		"0100580A":                              "",
		"0100580A:":                             "",
		"0100580A:10000":                        "",
		"0100580:0016":                          "",
		"010058:0016":                           "",
		"0100580A0100580A:0016":                 "",
		":0016":                                 "",
	} {
		got, ok := procAddr(text)
		if ok != (want != "") || ok && got != netip.MustParseAddrPort(want) {
			t.Errorf("procAddr(%q) = %v, %v, want %q", text, got, ok, want)
		}
	}
}

func TestSSHConnection(t *testing.T) {
	for _, test := range []struct{ text, local, remote string }{
		{"10.88.255.254 59596 10.88.0.1 22", "10.88.0.1:22", "10.88.255.254:59596"},
		{"fe80::1%eth0 5 fe80::2%eth0 22", "[fe80::2]:22", "[fe80::1]:5"},
		{"::ffff:10.0.0.1 5 ::ffff:10.0.0.2 22", "10.0.0.2:22", "10.0.0.1:5"},
		{"UNKNOWN 65535 UNKNOWN 65535", "", ""},
		{"", "", ""},
		{"10.0.0.1 5 10.0.0.2", "", ""},
		{"10.0.0.1 5 10.0.0.2 x", "", ""},
		{"10.0.0.1 70000 10.0.0.2 22", "", ""},
	} {
		local, remote, ok := sshConnection(test.text)
		if ok != (test.local != "") || ok && (local != netip.MustParseAddrPort(test.local) || remote != netip.MustParseAddrPort(test.remote)) {
			t.Errorf("sshConnection(%q) = %v, %v, %v", test.text, local, remote, ok)
		}
	}
}

func TestJudge(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	w := &watch{heard: start}
	for _, step := range []struct {
		at         int
		unanswered bool
		silent     time.Duration
	}{
		{15, false, 0},
		{30, true, 15 * time.Second}, // it answered at 15
		{45, true, 30 * time.Second},
		{60, false, 0}, // it was only slow
		{75, true, 15 * time.Second},
		{90, true, 30 * time.Second},
		{105, true, 45 * time.Second},
	} {
		if got := w.judge(step.unanswered, at(step.at)); got != step.silent {
			t.Errorf("at %d: silent for %v, want %v", step.at, got, step.silent)
		}
	}
}

// tables is a /proc whose connection is answered or not.
func tables(repeats string) fstest.MapFS {
	line := "   1: 0100580A:0016 FEFF580A:E8CC 01 0:0 01:0 " + repeats + " 0 0 2307570 3\n"
	return fstest.MapFS{"proc/net/tcp": {Data: []byte(line)}}
}

func TestTheWatchTellsOfADeadLink(t *testing.T) {
	if !littleEndian() {
		return
	}
	for name, test := range map[string]struct {
		repeats, connection string
		silence             time.Duration
		dead                bool
	}{
		"dead":              {"00000005", "10.88.255.254 59596 10.88.0.1 22", 45 * time.Second, true},
		"alive":             {"00000000", "10.88.255.254 59596 10.88.0.1 22", 45 * time.Second, false},
		"not ours":          {"00000005", "10.88.255.254 59597 10.88.0.1 22", 45 * time.Second, false},
		"without SSH":       {"00000005", "", 45 * time.Second, false},
		"not to be watched": {"00000005", "10.88.255.254 59596 10.88.0.1 22", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSilentSession()
				defer close(s.done)
				defer s.conn.Abandon()
				sys := System{Root: tables(test.repeats), Environ: []string{"SSH_CONNECTION=" + test.connection}}
				watchLink(sys, test.silence, s)
				began := time.Now()
				select {
				case event := <-s.events:
					if took := time.Since(began); !test.dead || took != test.silence {
						t.Errorf("%#v after %v", event, took)
					}
				case <-time.After(time.Hour):
					if test.dead {
						t.Error("not noticed")
					}
				}
			})
		})
	}
}
