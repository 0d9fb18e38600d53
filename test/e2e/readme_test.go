//go:build linux

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// asNewUser makes, in name spaces of its own, a machine on which an ordinary user has a clone
// and a Go tool chain, and does there what is said. He cannot look into root's home, so the
// modules are mounted elsewhere, and what the tool chain has built already lies under his
// own cache: to build all of it again would take minutes.
const asNewUser = `user=$1 top=$2 modules=$3 built=$4 goroot=$5 script=$6
mkdir "$top/home" "$top/mod" "$top/cache" "$top/upper" "$top/work"
mount --bind "$modules" "$top/mod"
for dir in "$built"/??; do mkdir "$top/upper/${dir##*/}"; done
chown -R "$user:$user" "$top/home" "$top/clone" "$top/cache" "$top/upper"
mount -t overlay -o "lowerdir=$built,upperdir=$top/upper,workdir=$top/work" newcomer "$top/cache" || echo "from scratch" >&2
{ cat /etc/passwd; echo "newcomer:x:$user:$user::$top/home:/bin/sh"; } >"$top/passwd"
mount --bind "$top/passwd" /etc/passwd
cd "$top/clone"
exec setpriv "--reuid=$user" "--regid=$user" --clear-groups env -i HOME="$top/home" USER=newcomer LOGNAME=newcomer SHELL=/bin/sh \
	PATH="$top/clone/bin:$goroot/bin:/usr/bin:/bin" GOMODCACHE="$top/mod" GOCACHE="$top/cache" GOPROXY=off GOTOOLCHAIN=local \
	timeout -k 10 400 /bin/sh -ec "$script"`

// newcomerID is his user ID, and group ID.
const newcomerID = "2002"

// What the README shows runs as an ordinary user, in an ordinary clone, on a machine where
// nothing was prepared for him.
func TestReadmeAsAnOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs another user, and so root")
	}
	t.Parallel()
	top := t.TempDir()
	for _, dir := range []string{filepath.Dir(top), top} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cloneRepo(t, filepath.Join(top, "clone"))
	script := "umask 022\n" + readmeScript(t)
	args := []string{"--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "/bin/sh", "-ec", asNewUser, "sh",
		newcomerID, top, goEnv(t, "GOMODCACHE"), goEnv(t, "GOCACHE"), goEnv(t, "GOROOT"), script}
	ctx, stop := context.WithTimeout(t.Context(), 4*longTimeout)
	defer stop()
	cmd := exec.CommandContext(ctx, "unshare", args...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\nsays\n%s", err, script, said.String())
	}
	want := []string{"== make\n", "== bin/mpiexec -n 4 -l hostname\n", "[3] ", "order     n[1-2], as listed", "== make demo\n", "three hosts", "[5] ", "rank 1 on n2 exited with code 3", "demo done",
		"== mpiexec --help", "== mpijob help", "== done\n"}
	if word := firstOutOfOrder(said.String(), want...); word != "" {
		t.Errorf("no %q at its place:\n%s", word, said.String())
	}
	if left, _ := filepath.Glob("/tmp/remshell-*-" + newcomerID); left != nil {
		t.Errorf("left: %v", left)
	}
	mpicc, _ := exec.LookPath("mpicc.mpich")
	if without := strings.Contains(said.String(), "no MPICH here"); without != (mpicc == "") {
		t.Errorf("mpicc.mpich is %q, and the demo says that there is none: %v", mpicc, without)
	}
}

// cloneRepo makes a clone of this repository, with what is not committed yet.
func cloneRepo(t *testing.T, dir string) {
	t.Helper()
	run := func(args ...string) string {
		out, err := exec.Command("git", args...).Output()
		if err != nil {
			t.Skipf("git %v: %v: no clone can be had", args, err)
		}
		return string(out)
	}
	run("clone", "-q", "--no-hardlinks", repoRoot, dir)
	for name := range strings.SplitSeq(run("-C", repoRoot, "ls-files", "-z", "--modified", "--others", "--exclude-standard"), "\x00") {
		if name == "" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(repoRoot, name))
		if err != nil { // it was removed
			os.Remove(filepath.Join(dir, name))
			continue
		}
		info, err := os.Stat(filepath.Join(repoRoot, name))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, info.Mode().Perm())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// readmeScript returns a script of the commands that the README shows, in their order. There are no hosts, so commands that
// name some are made dry runs.
func readmeScript(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repoRoot, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	count := 0
	do := func(command string) {
		count++
		fmt.Fprintf(&script, "echo '== %s'\n%s\n", strings.ReplaceAll(command, "'", ""), command)
	}
	for line := range strings.Lines(string(text)) {
		command, indented := strings.CutPrefix(line, "    ")
		command, _, _ = strings.Cut(command, "#")
		command = strings.TrimSpace(command)
		name, rest, _ := strings.Cut(command, " ")
		switch {
		case !indented:
		case name == "make":
			do(command)
		case !strings.HasSuffix(name, "mpiexec"):
		case strings.Contains(rest, "n1,n2"):
			do(name + " --dry-run --no-probe " + strings.Replace(rest, "n1,n2", "n1:4,n2:4", 1)) // nobody knows how large they are
		default:
			do(command)
		}
	}
	for _, span := range regexp.MustCompile("`(mpiexec --?[a-z][^`A-Z]*|mpijob [a-z]+)`").FindAllStringSubmatch(string(text), -1) {
		command, _, _ := strings.Cut(span[1], "|")
		do(strings.TrimSpace(command) + " >/dev/null")
	}
	if count < 6 {
		t.Fatalf("the README has fewer commands than it had, or this test reads it wrongly:\n%s", script.String())
	}
	return script.String() + "echo '== done'\n"
}
