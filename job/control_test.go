package job

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"remshell/test/doctable"
)

var update = flag.Bool("update", false, "write doc/supervision.md anew")

// A request is authorized by the verified uid only, never by what the requester writes (survive.md SV-25).
func TestAuthorize(t *testing.T) {
	for _, test := range []struct {
		asker, owner   int
		administrators []int
		want           Role
	}{
		{1000, 1000, nil, RoleOwner},
		{1000, 1000, []int{1000}, RoleOwner},
		{0, 1000, nil, RoleRoot},
		{0, 0, nil, RoleOwner},
		{1001, 1000, []int{1001, 1002}, RoleAdministrator},
		{1002, 1000, []int{1001, 1002}, RoleAdministrator},
		{1003, 1000, []int{1001, 1002}, ""},
		{1003, 1000, nil, ""},
		{1003, 0, []int{1001}, ""},
		{1001, 0, []int{1001}, RoleAdministrator},
	} {
		if got, ok := Authorize(test.asker, test.owner, test.administrators); got != test.want || ok != (test.want != "") {
			t.Errorf("%d by the job of %d, with administrators %v: %q, %v", test.asker, test.owner, test.administrators, got, ok)
		}
	}
}

// doc/supervision.md has the table that this test makes. The flag -update rewrites it.
func TestTableOfAuthorize(t *testing.T) {
	const root, alice, bob = 0, 1000, 1001
	var table strings.Builder
	table.WriteString("| who asks | no administrators | `administrators = [\"bob\"]` |\n|---|---|---|\n")
	for _, who := range []struct {
		name string
		uid  int
	}{{"alice", alice}, {"root", root}, {"bob", bob}, {"eve, whatever she says of herself", 1002}} {
		fmt.Fprintf(&table, "| %s |", who.name)
		for _, named := range [][]int{nil, {bob}} {
			word := "not allowed"
			if right, ok := Authorize(who.uid, alice, named); ok {
				word = "obeyed, as " + string(right)
			}
			fmt.Fprintf(&table, " %s |", word)
		}
		table.WriteString("\n")
	}
	doctable.CheckTable(t, "../doc/supervision.md", "<!-- begin of the table of who is obeyed -->\n", "<!-- end of the table of who is obeyed -->\n", table.String(), *update,
		"go test ./job -run TestTableOfAuthorize -update")
}
