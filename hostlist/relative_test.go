package hostlist_test

import (
	"fmt"
	"strings"
	"testing"

	"remshell/hostlist"
)

// Hosts named by their position in an allocation (cli.md 4.1).
func TestResolve(t *testing.T) {
	allocation, err := hostlist.Parse("SLURM_JOB_NODELIST", "n[1-4]:2")
	if err != nil {
		t.Fatal(err)
	}
	for list, want := range map[string]string{
		"+n0":                    "n1:2",
		"+N3,+n1":                "n4:2 n2:2",
		"+n1:7":                  "n2:7",
		"alice@+n1":              "alice@n2:2",
		"+e":                     "n1:2 n2:2 n3:2 n4:2",
		"+e:2":                   "n1:2 n2:2",
		"+n0,+e:2":               "n1:2 n2:2 n3:2",
		"n1,+e":                  "n1:0 n2:2 n3:2 n4:2",
		"+e:1,+e:2":              "n1:2 n2:2 n3:2",
		"^+n0":                   "n1:2 n2:2 n3:2 n4:2 ^n1:0",
		"+e:3,^+n1":              "n1:2 n2:2 n3:2 ^n2:0",
		"other,+n2":              "other:0 n3:2",
		"+n4":                    `-host:1: "+n4" is not in the allocation, which has 4 nodes, counted from 0`,
		"n9,+e:5":                `-host:4: "+e:5" asks for too many empty nodes: 4 of the 4 nodes of the allocation are empty`,
		"+e,+e":                  `-host:4: "+e" asks for too many empty nodes: 0 of the 4 nodes of the allocation are empty`,
		"+n":                     `-host:1: "+n" is not valid; write +nK with a number K, or +e`,
		"+n-1":                   `-host:1: "+n-1" is not valid`,
		"+n99999999999999999999": "is not valid",
		"+e:0":                   `"+e:0" is not valid`,
		"+e:x":                   `"+e:x" is not valid`,
		"+5":                     `"+5" is not valid`,
		"+":                      `"+" is not valid`,
		"^+e:1:3":                `"+e:1:3" is not valid`,
	} {
		entries, err := hostlist.ParseRelative("-host", list)
		if err == nil {
			entries, err = hostlist.Resolve(entries, allocation)
		}
		if got := entriesText(entries, err); got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%s: %s\nwant %s", list, got, want)
		}
	}
}

func entriesText(entries []hostlist.Entry, err error) string {
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, e := range entries {
		text := fmt.Sprintf("%s:%d", e.Label(), e.Slots)
		if e.User != "" {
			text = e.User + "@" + text
		}
		if e.Exclude {
			text = "^" + text
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// A relative name is never used as a host name.
func TestRelativeNamesAreNoHosts(t *testing.T) {
	entries, err := hostlist.ParseRelative("-host", "+n0")
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"joined":                errOf(hostlist.Join(entries)),
		"outside an allocation": errOf(hostlist.Resolve(entries, nil)),
		"elsewhere":             errOf(hostlist.Parse("PSI_HOSTS", "+n0")),
	} {
		if err == nil || !strings.Contains(err.Error(), `"+n0" refers to a host of an allocation, but mpiexec does not run inside an allocation`) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func errOf(_ []hostlist.Entry, err error) error { return err }
