package pmiserver_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"

	"remshell/pmiserver"
)

// A rank that publishes without end fills the table, and nothing else (TRUST-24).
func TestTheTableOfNamesIsBounded(t *testing.T) {
	server := pmiserver.New(pmiserver.Info{Name: "k0", Size: 1, Ranks: []int{0}}, nil)
	server.Names = new(pmiserver.NameTable)
	clientEnd, serverEnd := net.Pipe()
	defer clientEnd.Close()
	go server.Serve(t.Context(), 0, serverEnd)
	answers := bufio.NewReader(clientEnd)
	ask := func(line, want string) {
		t.Helper()
		fmt.Fprint(clientEnd, line)
		if got, err := answers.ReadString('\n'); err != nil || !strings.Contains(got, want) {
			t.Fatalf("%.60q: %q, %v; want %q", line, got, err, want)
		}
	}
	ask("cmd=init pmi_version=1 pmi_subversion=1\n", "rc=0")
	port := strings.Repeat("p", 4096-5)
	for i := range 1024 {
		ask(fmt.Sprintf("cmd=publish_name service=n%04d port=%s\n", i, port), "rc=0")
	}
	ask("cmd=publish_name service=more port=x\n", "rc=-1 msg=name_table_full")
	ask("cmd=publish_name service=n0007 port=x\n", "rc=1 msg=key_already_present")
	ask("cmd=unpublish_name service=n0007\n", "rc=0")
	ask("cmd=publish_name service=more port=x\n", "rc=0")
	ask("cmd=unpublish_name service=more\n", "rc=0")
	ask(fmt.Sprintf("cmd=publish_name service=12345 port=%sx\n", port), "rc=-1 msg=name_too_long")
	ask(fmt.Sprintf("cmd=lookup_name service=%s\n", strings.Repeat("s", 60_000)), "rc=1 msg=service_not_found")
	ask(fmt.Sprintf("cmd=unpublish_name service=%s\n", strings.Repeat("s", 60_000)), "rc=1 msg=service_not_found")
}
