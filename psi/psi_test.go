package psi

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"remshell/job"
)

// fiveNodes is a cluster of n0 to n4 with the IDs 0 to 3 and 10.
func fiveNodes() []job.NodeDef {
	var nodes []job.NodeDef
	for i, id := range []int{0, 1, 2, 3, 10} {
		nodes = append(nodes, job.NodeDef{ID: id, Name: fmt.Sprint("n", i), Aliases: []string{fmt.Sprintf("n%d.example.org", i)}})
	}
	nodes[0].Features = []string{"eth", "ib"}
	return nodes
}

// inputOf returns an Input with "NAME=VALUE" assignments.
func inputOf(environ ...string) Input {
	return Input{
		Nodes: fiveNodes(),
		Env: func(name string) (string, bool) {
			for _, e := range environ {
				if value, ok := strings.CutPrefix(e, name+"="); ok {
					return value, true
				}
			}
			return "", false
		},
		Open: func(name string) (string, error) {
			text, ok := map[string]string{
				"hosts": "# all\n\nn1\r\n N0 , # first\nn0.EXAMPLE.org ifhn=eth0\n",
				"two":   "n0\nn1 n2\n", "none": "#\n\n", "wrong": "n0\nn9\n",
				"pe":  "n1 2 all.q@n1 UNDEFINED\nifhn=x n0 0\nn2 1\n",
				"pe1": "n1\n", "pe2": "n1 two\n", "pe3": "n1 65536\n", "pe4": "n9 0\n", "pe5": "n1 0\n",
			}[name]
			if !ok {
				return "", &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
			}
			return text, nil
		},
	}
}

// For each source of lists: the names of the host entries, or code and token of the error.
func TestLists(t *testing.T) {
	tests := []struct{ assignment, want string }{
		{"", "n0 n1 n2 n3 n4"},
		{"PSI_NODES=3,1", "n3 n1"},
		{"PSI_NODES= 0 - 2 ,, 010 ,", "n0 n1 n2 n4"},
		{"PSI_NODES=1,1,0-1", "n1 n1 n0 n1"},
		{"PSI_NODES=0000000010", "n4"},
		{"PSI_NODES=00000000010", "bad-nodes 00000000010"},
		{"PSI_NODES=2-5", "unknown-node 4"},
		{"PSI_NODES=0-9999999999", "unknown-node 4"},
		{"PSI_NODES=007", "unknown-node 7"},
		{"PSI_NODES=3-1", "bad-nodes 3-1"},
		{"PSI_NODES=0, node1 ", "bad-nodes node1"},
		{"PSI_NODES=1-", "bad-nodes 1-"},
		{"PSI_NODES=-1", "bad-nodes -1"},
		{"PSI_NODES=+1", "bad-nodes +1"},
		{"PSI_NODES=1-2-3", "bad-nodes 1-2-3"},
		{"PSI_NODES=0x1", "bad-nodes 0x1"},
		{"PSI_NODES=1 2", "bad-nodes 1 2"},
		{"PSI_NODES=", "empty-list "},
		{"PSI_NODES= ,,", "empty-list  ,,"},
		{"PSI_HOSTS=N2,\tn0  n2.example.org", "n2 n0 n2"},
		{"PSI_HOSTS=n1 ifhn=eth0", "n1"},
		{"PSI_HOSTS=ifhn=eth0", "empty-list ifhn=eth0"},
		{"PSI_HOSTS=n1 n7", "unknown-host n7"},
		{"PSI_HOSTS=n1:4", "unknown-host n1:4"},
		{"PSI_HOSTFILE=hosts", "n1 n0 n0"},
		{"PSI_HOSTFILE= hosts ", "n1 n0 n0"},
		{"PSI_HOSTFILE=", "empty-list "},
		{"PSI_HOSTFILE=none", "empty-list none"},
		{"PSI_HOSTFILE=gone", "hostfile-unreadable gone"},
		{"PSI_HOSTFILE=two", "bad-hostfile n2"},
		{"PSI_HOSTFILE=wrong", "unknown-host n9"},
		{"PSI_PEFILE=pe", "n1 n1 n2"},
		{"PSI_PEFILE=pe1", "bad-hostfile n1"},
		{"PSI_PEFILE=pe2", "bad-hostfile two"},
		{"PSI_PEFILE=pe3", "bad-hostfile 65536"},
		{"PSI_PEFILE=pe4", "unknown-host n9"},
		{"PSI_PEFILE=pe5", "empty-list pe5"},
	}
	for _, test := range tests {
		if got := readEntries(inputOf(test.assignment)); got != test.want {
			t.Errorf("%s: %s; want %s", test.assignment, got, test.want)
		}
	}
	if got := readEntries(inputOf("PSI_HOSTFILE=hosts", "PSI_HOSTS_UNIQUE=")); got != "n1 n0" {
		t.Errorf("unique: %s", got)
	}
	empty := inputOf()
	empty.Nodes = nil
	if got := readEntries(empty); got != "empty-list " {
		t.Errorf("no nodes: %s", got)
	}
}

// --nodes may mix names and IDs, and then each node counts once, in the order of IDs. PSI_NODES takes only IDs.
func TestNamesAmongNumbers(t *testing.T) {
	for list, want := range map[string]string{
		"3,N1,0": "n0 n1 n3", "n2,1-3,n2": "n1 n2 n3", "n2": "n2", "3,1": "n3 n1", "1,n9": "bad-nodes n9", "n1-n2": "bad-nodes n1-n2",
	} {
		in := inputOf()
		in.Flags.Nodes = &list
		if got := readEntries(in); got != want {
			t.Errorf("--nodes %s: %s; want %s", list, got, want)
		}
	}
}

func readEntries(in Input) string {
	c, err := Read(in)
	var bad *Error
	if errors.As(err, &bad) {
		if bad.Source != "" && !strings.Contains(bad.Error(), fmt.Sprintf("%s: ", bad.Source)) || !strings.Contains(bad.Error(), bad.Allowed[0]) {
			return "the message lacks something: " + bad.Error()
		}
		return bad.Code + " " + bad.Token
	}
	var names []string
	for _, i := range c.Entries {
		names = append(names, c.Nodes[i].Name)
	}
	return strings.Join(names, " ")
}

// Without a cluster file the hosts of a list are the cluster (2).
func TestAdHoc(t *testing.T) {
	in := inputOf("PSI_HOSTS=b a B c")
	in.Nodes, in.NoConfig = nil, true
	if got := readEntries(in); got != "b a b c" {
		t.Errorf("hosts: %s", got)
	}
	in = inputOf("PSI_NODES=0")
	in.Nodes, in.NoConfig = nil, true
	if got := readEntries(in); got != "unknown-node 0" {
		t.Errorf("nodes: %s", got)
	}
	// A word that ssh would parse as an option, or a shell as a command, is refused as a name. With -launcher-exec ssh
	// this one would run a program.
	for _, name := range []string{"-oProxyCommand=touch${IFS}x", "a;b", "n[1-2]", "alice@n1", "n1:2"} {
		in = inputOf("PSI_HOSTS=b " + name)
		in.Nodes, in.NoConfig = nil, true
		if got := readEntries(in); got != "unknown-host "+name {
			t.Errorf("%s: %s", name, got)
		}
	}
	in = inputOf()
	in.Nodes, in.NoConfig = nil, true
	if c, err := Read(in); err != nil || len(c.Nodes) != 0 {
		t.Errorf("nothing: %v, %v", c.Nodes, err)
	}
}

// An error in a file names the line.
func TestFileLines(t *testing.T) {
	for assignment, want := range map[string]string{
		"PSI_HOSTFILE=wrong": `PSI_HOSTFILE: wrong line 2: "n9" is not the name of a node of the cluster; allowed: n0, n1, n2, n3, n4`,
		"PSI_HOSTFILE=two":   `PSI_HOSTFILE: two line 2: "n2" is one word too many; allowed: one host name on each line`,
		"PSI_PEFILE=pe4":     `PSI_PEFILE: pe4 line 1: "n9" is not the name of a node of the cluster; allowed: n0, n1, n2, n3, n4`,
		"PSI_PEFILE=pe3":     `PSI_PEFILE: pe3 line 1: "65536" is not a count; allowed: lines HOST COUNT, with COUNT from 0 to 65535`,
		"PSI_HOSTFILE=gone":  `PSI_HOSTFILE: "gone" cannot be read: file does not exist; allowed: the path of a file that you may read`,
	} {
		if _, err := Read(inputOf(assignment)); err == nil || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", assignment, err, want)
		}
	}
}

func TestMaps(t *testing.T) {
	tests := []struct{ text, want string }{
		{"0-3", "[0 1 2 3]"}, {"3-0", "[3 2 1 0]"}, {"0, 1", "[0 1]"}, {"\t0x1F,017,,+2", "[31 15 2]"}, {"1,1", "[1 1]"},
		{"", "[]"}, {"0x0-0x2", "[0 1 2]"}, {"0-+2", "[0 1 2]"}, {"65535", "[65535]"}, {"1- 2", "[1 2]"}, {"00", "[0]"},
		{"08", `bad "08"`}, {"1-", `bad "1-"`}, {"-1", `bad "-1"`}, {"1-2-3", `bad "1-2-3"`}, {"0 ,1", `bad "0 "`}, {"65536", `bad "65536"`},
		{"0x", `bad "0x"`}, {"0,a", `bad "a"`}, {"++1", `bad "++1"`}, {"1_0", `bad "1_0"`}, {"0, 1 2", `bad " 1 2"`},
	}
	for _, test := range tests {
		numbers, bad, ok := ParseCPUMap(test.text)
		got := fmt.Sprint(numbers)
		if !ok {
			got = fmt.Sprintf("bad %q", bad)
		}
		if got != test.want {
			t.Errorf("ParseMap(%q) = %s; want %s", test.text, got, test.want)
		}
	}
}

// The precedence of sources for TPP, sort key and switches, and the warnings.
func TestPrecedence(t *testing.T) {
	yes, no, text := true, false, func(s string) *string { return &s }
	tests := []struct {
		name    string
		environ []string
		flags   Flags
		want    string // sort, TPP and its source, switches, warnings
	}{
		{"nothing", nil, Flags{}, "PROC 1() []"},
		{"variables", []string{"PSI_NODES_SORT= load1 ", "PSI_TPP= 2\n", "OMP_NUM_THREADS=4", "PSI_OVERBOOK="}, Flags{}, "LOAD_1 2(PSI_TPP) over []"},
		{"flags hide them", []string{"PSI_NODES_SORT=?", "PSI_TPP=?", "PSI_OVERBOOK=no"},
			Flags{Sort: text("Proc+Load"), TPP: text("3"), Overbook: &no}, "PROC+LOAD 3(--tpp) forbid []"},
		{"OpenMP's", []string{"OMP_NUM_THREADS= 4 ,2"}, Flags{}, "PROC 4(OMP_NUM_THREADS) []"},
		{"OpenMP's is bad", []string{"OMP_NUM_THREADS=0"}, Flags{}, "PROC 1() [bad-omp-num-threads]"},
		{"a switch that says no", []string{"PSI_WAIT= False ", "PSI_LOOP_NODES_FIRST=1", "__PSI_NO_PINPROC=OFF"}, Flags{}, "PROC 1() loop wait nopin [value-ignored value-ignored]"},
		{"negated flags", []string{"PSI_WAIT=0", "PSI_LOOP_NODES_FIRST=", "__PSI_NO_PINPROC=", "__PSI_NO_MEMBIND="},
			Flags{Wait: &no, Loop: &no, Pin: &yes, MemBind: &yes}, "PROC 1() []"},
		{"either name", []string{"__PSI_NO_BINDMEM="}, Flags{Pin: &no}, "PROC 1() nopin nomem []"},
		{"overbooking will be exclusive", []string{"PSI_OVERBOOK="}, Flags{Exclusive: &no}, "PROC 1() over [overbook-implies-exclusive]"},
		{"unsupported", []string{"PSI_DYNAMIC=", "__PSID_BATCH=1"}, Flags{}, "PROC 1() [unsupported-variable unsupported-variable]"},
		{"more words after the flag", nil, Flags{Sort: text("-slots")}, "-SLOTS 1() []"},
	}
	for _, test := range tests {
		in := inputOf(test.environ...)
		in.Flags = test.flags
		c, err := Read(in)
		if got := settingsText(c); err != nil || got != test.want {
			t.Errorf("%s: %s, %v; want %s", test.name, got, err, test.want)
		}
	}
	in := inputOf("PSI_NODES_SORT=slots")
	if _, err := Read(in); err == nil {
		t.Error("the variable takes a word of the flag")
	}
	in = inputOf("PSI_NODES_SORT=load", "PSI_NODES=?")
	in.HostsNamed = true
	if c, err := Read(in); err != nil || c.Sort != "NONE" {
		t.Errorf("with -host: sorted by %q, %v", c.Sort, err)
	}
}

func settingsText(c Settings) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d(%s)", c.Sort, c.CPUsPerRank, c.CPUsPerRankOrigin)
	for _, s := range []struct {
		on   bool
		name string
	}{{c.Overbook, "over"}, {c.NoOversubscribe, "forbid"}, {c.Exclusive, "excl"}, {c.RoundRobin, "loop"}, {c.Wait, "wait"}, {c.NoPin, "nopin"}, {c.NoMemBind, "nomem"}} {
		if s.on {
			b.WriteString(" " + s.name)
		}
	}
	codes := []string{}
	for _, w := range c.Warnings {
		codes = append(codes, w.Code)
	}
	fmt.Fprintf(&b, " %v", codes)
	return b.String()
}

// For any value Read returns settings or an error with all fields.
func FuzzRead(f *testing.F) {
	f.Add("PSI_NODES", "0-3, 10", "n0\n")
	f.Add("PSI_HOSTS", "n0,n1 n2", "")
	f.Add("PSI_HOSTFILE", "f", "# x\nn0 ifhn=a\n")
	f.Add("PSI_PEFILE", "f", "n0 3 x\nn1 1\n")
	f.Add("__PSI_CPUMAP", "3-0,0x7,017, +1", "")
	f.Add("PSI_TPP", "4", "")
	f.Add("OMP_NUM_THREADS", "4,2", "")
	f.Add("PSI_HW_TYPE", "ib, eth", "")
	f.Fuzz(func(t *testing.T, name, value, file string) {
		in := inputOf(name + "=" + value)
		in.Open = func(string) (string, error) { return file, nil }
		c, err := Read(in)
		var bad *Error
		if err != nil && (!errors.As(err, &bad) || bad.Code == "" || bad.Source == "") {
			t.Errorf("%s=%q: %v", name, value, err)
		}
		for _, i := range c.Entries {
			if i < 0 || i >= len(c.Nodes) {
				t.Errorf("%s=%q: entry %d of %d nodes", name, value, i, len(c.Nodes))
			}
		}
	})
}
