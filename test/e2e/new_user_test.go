//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"remshell/tools/testbed"
)

// A newUser is a user of whom the machine that launches knows nothing but a key, with
// which he can log in to the hosts: no known hosts, no program of ours, no configuration.
type newUser struct {
	*testCluster
	uid  int
	home string // another one on each host
	dir  string // where he works, which the hosts see too
}

// addNewUser adds a user to the cluster's files that replace passwd and the like in /etc.
func addNewUser(t *testing.T, b *testCluster) newUser {
	t.Helper()
	n := newUser{b, 2001, filepath.Join(t.TempDir(), "newcomer"), guideFolder(t)}
	for name, line := range map[string]string{
		"passwd": fmt.Sprintf("newcomer:x:%d:%d::%s:/bin/sh\n", n.uid, n.uid, n.home),
		"shadow": "newcomer:*:19000:0:99999:7:::\n",
	} { // in place: head and hosts have it mounted
		f, err := os.OpenFile(filepath.Join(b.State, "etc", name), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteString(line)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{filepath.Dir(filepath.Dir(n.home)), filepath.Dir(n.home)} { // t.TempDir is root's
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"id_ed25519", "id_ed25519.pub"} {
		n.copySSHFile(t, testbed.Head, file, file)
	}
	for _, h := range b.Hosts {
		n.copySSHFile(t, h.Name, "id_ed25519.pub", "authorized_keys")
	}
	if err := os.Chown(n.dir, n.uid, n.uid); err != nil {
		t.Fatal(err)
	}
	return n
}

// copySSHFile gives him a file of root's ~/.ssh on the head, under a name, on a host.
func (n newUser) copySSHFile(t *testing.T, host, from, name string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(n.Home, ".ssh", from))
	dir := filepath.Join(n.Root(host), n.home, ".ssh")
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	name = filepath.Join(dir, name)
	if err = errors.Join(err, os.WriteFile(name, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{filepath.Dir(dir), dir, name} {
		if err := os.Chown(file, n.uid, n.uid); err != nil {
			t.Fatal(err)
		}
	}
}

// runBoxes runs boxes of the guide in one shell. env is added to a login's environment.
func (n newUser) runBoxes(t *testing.T, boxes []guideBox, version string, env ...string) result {
	t.Helper()
	var script strings.Builder
	for _, x := range boxes {
		fmt.Fprintf(&script, "%secho '== %v'\n%s", pauseCommands, x, x.script)
	}
	text := strings.NewReplacer("VERSION", version, "linux-amd64", "linux-"+runtime.GOARCH).Replace(script.String())
	t.Chdir(n.dir)
	login := []string{"env", "-i", "HOME=" + n.home, "USER=newcomer", "LOGNAME=newcomer", "SHELL=/bin/sh", "PATH=/usr/bin:/bin"}
	login = append(append(login, env...), "timeout", "-k", "20", "300", "/bin/sh", "-ec", text)
	r := n.startCommand(t, mpiexecCall{uid: n.uid, timeout: 6 * time.Minute}, login).wait(t)
	if r.code != 0 {
		t.Errorf("exit %d\n%s\nsays\n%s%s", r.code, text, r.out, r.err)
	}
	return r
}

// countCommands counts those of a script. What stands in a here-document is none.
func countCommands(script string) (count int) {
	end := ""
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		switch _, word, here := strings.Cut(line, "<<"); {
		case end != "":
			if line == end {
				end = ""
			}
			continue
		case here:
			end = word
		}
		if line != "" && line != "wait" {
			count++
		}
	}
	return count
}

// makeArchive packs what is handed out for this system, as make dist does.
func makeArchive(t *testing.T, dir, version string) {
	t.Helper()
	system := "linux-" + runtime.GOARCH
	cmd := exec.Command("go", "run", "-C", "tools/pack", ".", "-version", version, "-only", system, "-out", filepath.Join(dir, ".dist"))
	cmd.Dir = repoRoot
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	name := fmt.Sprintf("remshell-%s-%s.tar.gz", version, system)
	if err := os.Rename(filepath.Join(dir, ".dist", name), filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// Issue 7, done when 6: a user who has nothing of ours comes by two commands to a job on two
// hosts, and from some hosts with his key to a job that waits its turn in a queue, by doing
// what the guide says and nothing else.
func TestNewcomer(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 4})
	b.requireNamespaces(t)
	b.shareRepo(t)
	n := addNewUser(t, b)
	const version = "1.0"
	makeArchive(t, n.dir, version)
	if err := relink(mpiProgram(t, "hello"), filepath.Join(n.dir, "hello")); err != nil {
		t.Fatal(err)
	}
	var first, cluster []guideBox // up to a job on two hosts, and up to one that has waited
	for _, x := range readBoxes(t, "laptop", "hosts", "cluster", "sharing") {
		switch {
		case x.words != "sh newcomer" && (x.words != "sh" || x.page != "cluster" && x.page != "sharing"):
		case x.page == "laptop" && first == nil, x.page == "hosts" && len(first) == 1:
			first = append(first, x)
		default:
			cluster = append(cluster, x)
		}
	}
	count := func(boxes []guideBox) (all int) {
		for _, x := range boxes {
			all += countCommands(x.script)
		}
		return all
	}
	if count(first) != 3 || len(cluster) < 8 { // unpack, a job on this machine, a job on two hosts
		t.Fatalf("the guide has other boxes than it had: %v, %v", first, cluster)
	}
	r := n.runBoxes(t, first, version)
	t.Logf("first run on two hosts: %d commands, %v", count(first), r.took)
	for _, place := range []string{"[0] n1\n", "[1] n2\n"} {
		if !strings.Contains(r.out, place) {
			t.Errorf("no %s: %s%s", place, r.out, r.err)
		}
	}
	r = n.runBoxes(t, cluster, version)
	t.Logf("from hosts with a key to a job that has waited: %d commands, %v\n%s%s", count(cluster), r.took, r.out, r.err)
	if said := firstOutOfOrder(r.out, "4 hosts: all fine", "rank 0 of 4", "sleep 8\n", "POSITION", "./hello\n", "rank 0 of 4"); said != "" {
		t.Errorf("no %q at its place: %s", said, r.out)
	}
	if said := firstOutOfOrder(r.err, "waiting in the queue, position 1 of 1", "the job starts now, after waiting for "); said != "" {
		t.Errorf("no %q: %s", said, r.err)
	}
}

// ci are the words of a box for a job of a CI system. The program that it may need is in parentheses.
var ci = regexp.MustCompile(`^sh ci(?: needs=(\S+))?$`)

// What the guide says of a CI job works in a container: the account has no files of ssh, HOME is another folder, and the key
// comes in a variable.
func TestCIJob(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	b.shareRepo(t)
	n := addNewUser(t, b)
	ssh := filepath.Join(n.Root(testbed.Head), n.home, ".ssh")
	key, err := os.ReadFile(filepath.Join(ssh, "id_ed25519"))
	home := filepath.Join(filepath.Dir(n.home), "container")
	err = errors.Join(err, os.RemoveAll(ssh), relink(mpiProgram(t, "hello"), filepath.Join(n.dir, "hello")),
		os.Mkdir(filepath.Join(n.Root(testbed.Head), home), 0o700), os.Chown(filepath.Join(n.Root(testbed.Head), home), n.uid, n.uid))
	if err != nil {
		t.Fatal(err)
	}
	var all []guideBox
	for _, x := range readBoxes(t, "ci") {
		words := ci.FindStringSubmatch(x.words)
		if words == nil {
			continue
		}
		if _, err := exec.LookPath(words[1]); words[1] == "" || err == nil {
			all = append(all, x)
		}
	}
	if len(all) < 5 {
		t.Fatalf("the guide has other boxes for CI than it had: %v", all)
	}
	r := n.runBoxes(t, all, "1.0", "PATH="+n.dir+"/.bin:/usr/bin:/bin", "HOME="+home, "CI_SSH_KEY="+strings.TrimSuffix(string(key), "\n"))
	t.Logf("%s%s", r.out, r.err)
	if said := firstOutOfOrder(r.err, "mpiexec added new ssh host keys to "+n.dir+"/ci_known_hosts\n"); said != "" {
		t.Errorf("no %q", said)
	}
	if said := firstOutOfOrder(r.out, "n1", "rank 0 of 2", "code 0"); said != "" {
		t.Errorf("no %q at its place", said)
	}
}

// firstOutOfOrder returns the first of some words that does not stand behind the others; empty if
// all do.
func firstOutOfOrder(text string, words ...string) string {
	for _, word := range words {
		_, rest, found := strings.Cut(text, word)
		if !found {
			return word
		}
		text = rest
	}
	return ""
}
