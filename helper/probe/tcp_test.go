//go:build linux

package probe

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
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

func TestIsRetransmitting(t *testing.T) {
	if !littleEndian() {
		t.Log("the vectors are of a little-endian machine")
		return
	}
	for _, row := range vectors(t, "tcp.txt") {
		local, remote, _ := strings.Cut(row[0], " ")
		got := IsRetransmitting("  sl  local_address rem_address\n   "+row[2]+"\n",
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
		got, ok := parseProcAddr(text)
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
		local, remote, ok := SSHConnection([]string{"SSH_CONNECTION=" + test.text})
		if ok != (test.local != "") || ok && (local != netip.MustParseAddrPort(test.local) || remote != netip.MustParseAddrPort(test.remote)) {
			t.Errorf("SSHConnection of %q = %v, %v, %v", test.text, local, remote, ok)
		}
	}
}

func TestSocketOwner(t *testing.T) {
	const table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
		"   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0 100 0 0 10 0\n" +
		"   1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 2 1 0 20 4 30 10 -1\n" +
		"   2: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 3 1 0 20 4 30 10 -1\n"
	client, server := netip.MustParseAddrPort("127.0.0.1:50000"), netip.MustParseAddrPort("127.0.0.1:8080")
	if uid, known := SocketOwner(table, client, server); uid != 1001 || !known {
		t.Errorf("owner %d, %v", uid, known)
	}
	if _, known := SocketOwner(table, client, client); known {
		t.Error("a connection that there is not has an owner")
	}
	line := strings.SplitAfter(table, "\n")[2]
	for state := 0; state <= 12; state++ {
		text := strings.Replace(line, " 01 ", fmt.Sprintf(" %02X ", state), 1)
		if _, known := SocketOwner(text, client, server); known != (state == 1) {
			t.Errorf("a connection in state %d: known is %v", state, known)
		}
	}
	if _, known := SocketOwner(strings.Replace(line, " 0 2 1 ", " 0 0 1 ", 1), client, server); known {
		t.Error("a connection that nobody has open has an owner")
	}
}
