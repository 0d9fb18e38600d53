//go:build linux

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// addNetworkCard gives a host the only network that counts there: an interface of its own in a place where the kernel has
// hardware. What it tells is what the kernel tells of the interface at any time.
const addNetworkCard = `ip link add wire type veth peer name far
ip link set wire up
ip link set far up
own=$(mktemp -d)
mount -t sysfs field $own
mount -t tmpfs field /sys/class/net
mkdir /sys/class/net/card
mount --bind $own/devices/virtual/net/wire /sys/class/net/card
umount -l $own
rmdir $own`

// A network that goes down between two runs takes its host out of the set (which-hosts.md 2.1).
func TestNodeSetsFollowTheNetworks(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 3})
	b.requireNamespaces(t)
	cluster := filepath.Join(t.TempDir(), "cluster.toml")
	if err := os.WriteFile(cluster, []byte("[[node]]\nname = \"n[1-3]\"\nid = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, host := range b.hosts() {
		if out, err := b.On(t.Context(), host, "sh", "-ec", addNetworkCard).CombinedOutput(); strings.Contains(string(out), "permission denied") {
			t.Skipf("%s may not mount what a network of its own needs: %s", host, out)
		} else if err != nil {
			t.Fatalf("%s: %v: %s", host, err, out)
		}
	}
	wired := []string{"--sort", "none", "--node-set", "ONEOF:NETWORK:ethernet", "-n", "2", "-ppn", "1"}
	if got := b.setOf(t, cluster, wired...); got != "n1 on ethernet, n2 on ethernet" {
		t.Errorf("all are up: %s", got)
	}
	b.runOn(t, "n1", "ip", "link", "set", "wire", "down")
	if got := b.setOf(t, cluster, wired...); got != "n2 on ethernet, n3 on ethernet" {
		t.Errorf("that of n1 is down: %s", got)
	}
	if r := b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", "n1,n2,n3", "-n", "1", "sh", "-c", "echo $MPIEXEC_HOST"}, env: []string{"PSI_HW_TYPE=ethernet"}}).wait(t); r.out != "n2\n" {
		t.Errorf("PSI_HW_TYPE=ethernet: exit %d, on %q: %s", r.code, r.out, r.err)
	}
	if r := b.runMpiexec(t, "-hosts", "n1,n2,n3", "-n", "1", "--nodetype", "infiniband", "true"); r.code != 125 || !strings.Contains(r.err, "n[1-3]: the host does not have the feature infiniband\n") {
		t.Errorf("--nodetype infiniband: exit %d: %s", r.code, r.err)
	}
	b.runOn(t, "n3", "ip", "link", "set", "wire", "down")
	b.checkRefused(t, mpiexecCall{args: append(append([]string{"--cluster", cluster}, wired...), "true")}, 125, "no ONEOF:NETWORK set can ever have room for 2 ranks", "(largest: ethernet, at most 1 rank when idle on n2)")
	b.runOn(t, "n1", "ip", "link", "set", "wire", "up")
	if got := b.setOf(t, cluster, wired...); got != "n1 on ethernet, n2 on ethernet" {
		t.Errorf("that of n1 is up again: %s", got)
	}
}

// What a plan tells of its choice, and of each rank, is the same before a run, in the report of the run, and in the
// plan of the state that was saved in the run (which-hosts.md 13.2).
func TestAChoiceIsToldAlike(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 4})
	b.requireNamespaces(t)
	cluster := setCluster(t)
	type choice struct{ Choice, Ranks any }
	read := func(what, text string) (c choice) {
		if err := json.Unmarshal([]byte(text), &c); err != nil || c.Choice == nil || c.Ranks == nil {
			t.Errorf("%s: %v in %s", what, err, text)
		}
		return c
	}
	for _, line := range []string{
		"--node-set ONEOF:FEATURE:b,a -n 2 -ppn 1",
		"--node-set ONEOF:PROCSPEED --node-set-tolerance 0.5 -n 4 -ppn 1",
		"--node-set ONEOF:FEATURE --node-set-plus SPANEVENLY -n 4 -ppn 1",
		"--node-set ONEOF:FEATURE --node-set-optional yes -n 3 -ppn 1",
		"--node-set ANYOF:MEMORY:1K-8T -n 4 -ppn 1",
		"--node-alloc MAXBALANCE -n 2 -ppn 1",
		"--contiguous=best -n 3 -ppn 1",
		"--shape 1 -n 3",
	} {
		dir := t.TempDir()
		state, report := filepath.Join(dir, "state.json"), filepath.Join(dir, "report.json")
		args := append([]string{"--cluster", cluster, "--sort", "none"}, strings.Fields(line)...)
		dry := b.runMpiexec(t, append([]string{"--dry-run", "--json"}, append(args, "true")...)...)
		ran := b.runMpiexec(t, append([]string{"--save-cluster-state", state, "--report", report}, append(args, "true")...)...)
		again := b.runMpiexec(t, "--plan", "--cluster-state", state)
		if dry.code != 0 || ran.code != 0 || again.code != 0 {
			t.Errorf("%s: exit %d, %d, %d: %s%s%s", line, dry.code, ran.code, again.code, dry.err, ran.err, again.err)
			continue
		}
		text, err := os.ReadFile(report)
		if err != nil {
			t.Fatal(err)
		}
		var told struct{ Plan json.RawMessage }
		if err := json.Unmarshal(text, &told); err != nil {
			t.Fatal(err)
		}
		want := read(line, dry.out)
		if got := read(line, string(told.Plan)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the report has\n%+v\nthe dry run\n%+v", line, got, want)
		}
		if got := read(line, again.out); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the saved state gives\n%+v\nthe dry run\n%+v", line, got, want)
		}
	}
}

// Faults of a cluster file are told with file, line, key and what may stand there, and nobody is contacted: what
// would reach a host never runs (which-hosts.md 3).
func TestBrokenClusterFilesContactNobody(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	dir := t.TempDir()
	cluster, contacted, launcher := filepath.Join(dir, "cluster.toml"), filepath.Join(dir, "contacted"), filepath.Join(dir, "launcher")
	if err := os.WriteFile(launcher, []byte("#!/bin/sh\ntouch "+contacted+"\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	run := func(text string) result {
		if err := os.WriteFile(cluster, []byte("[[node]]\nname = \"n1\"\nid = 1\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		return b.runMpiexec(t, "--cluster", cluster, "-launcher-exec", launcher, "-n", "1", "true")
	}
	for _, test := range []struct{ text, want string }{
		{"procspeed = \"fast\"\n", ":4: procspeed: "},
		{"flavors = [\"xx\"]\n", ":4: flavors: \"xx\" is not a flavor; allowed: ap, os, su"},
		{"classes = [\"amd\"]\n", ":4: classes: the cluster file has no class \"amd\"; write [[class]] with name = \"amd\""},
		{"attributes = { rack = \"r 1\" }\n", ":4: attributes.rack: \"r 1\" is not a valid label; allowed: letters, digits, _ . + -"},
		{"reserve = -1\n", ":4: reserve: "},
		{"procsped = 2000\n", ":4: unknown key \"procsped\" (did you mean \"procspeed\"?)"},
		{"[nodeset]\npolicy = \"SOMEOF\"\nattribute = \"FEATURE\"\n", ":5: policy: \"SOMEOF\" is not a policy; allowed: ONEOF, ANYOF, FIRSTOF"},
		{"[nodeset]\npolicy = \"ONEOF\"\nattribute = \"COLOUR\"\n", ":6: attribute: \"COLOUR\" is not an attribute; allowed: ARCH, CLASS, "},
		{"[nodeset]\npolicy = \"ONEOF\"\nattribute = \"FEATURE\"\ntolerance = 0.5\n", ":7: tolerance: "},
		{"[[region]]\nname = \"r\"\n", ":4: "},
		{"[[affinity]]\nnodes = \"n1\"\nvalue = \"good\"\n", ":6: value: "},
	} {
		r := run(test.text)
		if r.code != 125 || r.out != "" || !strings.Contains(r.err, "mpiexec: "+cluster+test.want) {
			t.Errorf("%q: exit %d, %q%q; want %q", test.text, r.code, r.out, r.err, test.want)
		}
		if _, err := os.Stat(contacted); err == nil {
			t.Fatalf("%q: somebody was contacted", test.text)
		}
	}
	run("procspeed = 2000\n")
	if _, err := os.Stat(contacted); err != nil {
		t.Errorf("nobody was contacted with a sound file either: %v", err)
	}
}
