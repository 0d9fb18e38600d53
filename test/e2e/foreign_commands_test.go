//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// A dry run of hosts without a number of slots had no plan unless --probe was given, too.
func TestADryRunLooksAtItsHosts(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	hosts := filepath.Join(t.TempDir(), "hosts.txt")
	if err := os.WriteFile(hosts, []byte("n1\nn2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"-f", hosts, "--dry-run", "hostname"}
	r := b.runMpiexec(t, args...)
	if r.code != 0 || r.err != "" || !regexp.MustCompile(`(?m)^  n1\n    rank.* CPUs? `).MatchString(r.out) || !strings.Contains(r.out, "\n  n2\n") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	r = b.runMpiexec(t, append(args, "--no-probe")...) // is an argument of the program
	if r.code != 0 {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	r = b.runMpiexec(t, append([]string{"--no-probe"}, args...)...)
	if r.code != 125 || !strings.Contains(r.out, "no plan") || !strings.Contains(r.out, "mpiexec contacted no host") {
		t.Errorf("--no-probe: exit %d\n%s%s", r.code, r.out, r.err)
	}
	r = b.runMpiexec(t, "--dry-run", "-host", "n1,nowhere.invalid", "-n", "2", "true")
	if r.code != 125 || !strings.Contains(r.err, "nowhere.invalid: resolve: the host name is unknown") {
		t.Errorf("a host that is not there: exit %d\n%s%s", r.code, r.out, r.err)
	}
}

// Each request that names a job understands "last" and the front of a name; of a front that several jobs have it lists these.
func TestJobsAreNamedByLastAndByTheFront(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	const script = `trap "echo USR1 came" USR1; echo up; while :; do sleep 600 & wait $!; done`
	var running []*runningJob
	var ids []string
	for len(ids) < 3 {
		r := b.startMpiexec(t, mpiexecCall{args: []string{"-host", "n1", "--oversubscribe", "-n", "1", "sh", "-c", script}})
		r.awaitOut(t, "up", 1)
		running = append(running, r)
		for _, j := range b.readListing(t, "n1").Jobs {
			if !slices.Contains(ids, j.Job) {
				ids = append(ids, j.Job)
			}
		}
		if len(ids) != len(running) {
			t.Fatalf("%d jobs run, and these are listed: %q", len(running), ids)
		}
	}
	say := func(option, name string) (r result) {
		args := append(strings.Fields(option), name, "n1")
		for range 20 { // a job of a slow machine has not answered in 10 s yet
			if r = b.runMpiexec(t, args...); !strings.Contains(r.err, "the job did not reply") {
				break
			}
		}
		return r
	}
	shared := ids[0]
	for !strings.HasPrefix(ids[1], shared) || !strings.HasPrefix(ids[2], shared) {
		shared = shared[:len(shared)-1]
	}
	front := func(of int) string { // the shortest that no other has
		n := 1
		for ; slices.ContainsFunc(ids, func(id string) bool { return id != ids[of] && strings.HasPrefix(id, ids[of][:n]) }); n++ {
		}
		return ids[of][:n]
	}
	all := []struct {
		option string
		says   string // besides the ID; empty: it must succeed
	}{
		{"--status", ""}, {"--signal USR1", ""}, {"--suspend", ""}, {"--resume-job", ""},
		{"--checkpoint", "the job cannot write checkpoints: it was started without"}, {"--migrate", "the job cannot be moved: it was started without --restart"},
	}
	asked := []string{"--end", "--evict"}
	for _, row := range all {
		asked = append(asked, strings.Fields(row.option)[0])
		for _, name := range []string{"last", front(1)} {
			r := say(row.option, name)
			want := row.says
			if row.option == "--status" {
				if want = ids[2]; name == front(1) {
					want = ids[1]
				}
			}
			if (r.code == 0) != (row.says == "") || !strings.Contains(r.out+r.err, want) {
				t.Errorf("%s %s: exit %d\n%s%s", row.option, name, r.code, r.out, r.err)
			}
		}
	}
	for _, r := range running[1:] {
		r.awaitOut(t, "USR1 came", 1)
	}
	if strings.Contains(running[0].out.String(), "USR1 came") {
		t.Error("the first job got a signal that was another's")
	}
	for _, option := range asked {
		if option == "--signal" {
			option += " USR1"
		}
		r := say(option, shared)
		if r.code != 125 || !strings.Contains(r.err, "3 jobs begin with "+shared+"\n  "+ids[0]+"  ") || strings.Count(r.err, "\n") != 5 {
			t.Errorf("%s %s: exit %d\n%s%s", option, shared, r.code, r.out, r.err)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^ +(--[a-z-]+)[^\n]* JOB `).FindAllStringSubmatch(b.runMpiexec(t, "-help", "all").out, -1) {
		if !slices.Contains(asked, m[1]) {
			t.Errorf("%s JOB is not tried here", m[1])
		}
	}
	if r := say("--end", "last"); r.code != 0 {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	if r := running[2].wait(t); r.code != 143 {
		t.Errorf("ended with %d: %s", r.code, r.err)
	}
	if r := say("--end", front(1)); r.code != 0 {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	running[1].wait(t)
	if r := say("--evict", "last"); r.code != 0 || !strings.Contains(r.err, "n1: removed the claim of job "+ids[0]) {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	running[0].wait(t)
}

// What could not be written was no failure where standard output was closed, and nowhere on standard error.
func TestLostOutputIsAFailure(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	file := filepath.Join(t.TempDir(), "code")
	const closed, full = "standard output is closed", "/dev/stdout: no space left on device\n"
	for _, test := range []struct {
		line string
		code int
		says string // a line on standard error ends so; empty: there is none
	}{
		{"-n 1 echo x >&-", 125, closed},
		{"-host n1 -n 2 echo x >&-", 125, closed},
		{"-l -n 1 echo x >&-", 125, closed},
		{"-n 1 true >&-", 0, ""},
		{"-n 1 sh -c 'echo x >&2' >&-", 0, "x\n"},
		{"-n 1 sh -c 'exit 3' >&-", 3, "exit code 3\n"},
		{"--version >&-", 125, closed},
		{"--help >&-", 125, closed},
		{"--man >&-", 125, closed},
		{"--completion bash >&-", 125, closed},
		{"--info >&-", 125, closed},
		{"--ps >&-", 125, closed},
		{"--ps --json >&-", 125, closed},
		{"--queue n1 >&-", 125, closed},
		{"--doctor >&-", 125, closed},
		{"--dry-run -n 1 true >&-", 125, closed},
		{"--dry-run --no-probe -n 1 true >&-", 125, closed},
		{"--plan -n 1 true >&-", 125, closed},
		{"--display-topo >&-", 125, closed},
		{"--json -n 1 true >&-", 125, closed},
		{"--aprun --help >&-", 125, closed},
		{"-n 1 echo x >/dev/full", 125, full},
		{"--ps >/dev/full", 125, full},
		{"--json -n 1 true >/dev/full", 125, full},
		{"--version >/dev/full", 125, full},
		{"--doctor >/dev/full", 125, full},
		// Nobody can be told of these but by the code.
		{"-n 1 sh -c 'echo x >&2' 2>/dev/full", 125, ""},
		{"-v -n 1 true 2>/dev/full", 125, ""},
		{"-n 1 true 2>/dev/full", 0, ""},
		{"-n 1 sh -c 'echo x >&2; exit 3' 2>/dev/full", 3, ""},
		{"-n 1 sh -c 'echo x >&2' 2>&-", 0, ""}, // whoever closes it wants to read nothing
		// A reader that has gone is no fault, and is not spoken of.
		{"--man | true", 141, ""}, // it is longer than a pipe
		{"-n 1 yes | head -1 >/dev/null", 141, ""},
	} {
		command, reader, piped := strings.Cut(test.line, " | ")
		script := `"$0" ` + command + `; echo $? >"$1"`
		if piped {
			script = "{ " + script + "; } | " + reader
		}
		out, said, _ := b.runOnHead(t, "sh", "-c", script, binary, file)
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(code) != fmt.Sprintln(test.code) || !strings.Contains(said, test.says) || test.says == closed && !strings.Contains(said, "to discard the output, use >/dev/null") || (test.says == "") != (said == "") {
			t.Errorf("%s: code %s, want %d; stderr %q, want %q; stdout %q", test.line, code, test.code, said, test.says, out)
		}
	}
}

// A loop of a shell over the lines of a file goes on behind the first job, since what its rank has not read is given back. Where lines come
// by a pipe that cannot be, which somebody at a terminal reads.
func TestALoopOverLinesKeepsItsLines(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, []byte("1\n2\n3\n4\n5\n6\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ line, want string }{
		{"-n 1 true", "1 2 3 4 5 6"},
		{"-host n1 -n 1 true", "1 2 3 4 5 6"},
		{"-host n1 -n 2 -stdin all true", "1 2 3 4 5 6"},
		{"-n 1 sh -c 'exec <&-; exit 3'", "1 2 3 4 5 6"},
		{"-n 1 sh -c 'read a'", "1 3 5"}, // who reads one line takes one
		{"-host n1 -n 1 sh -c 'read a'", "1 3 5"},
		{"-n 1 cat", "1"},
		{"-host n1 -n 1 cat", "1"},
	} {
		out, errs, _ := b.runOnHead(t, "sh", "-c", `while read i; do echo "$i" >&3; "$0" `+test.line+` >/dev/null 2>/dev/null; done 3>&1 <"$1"`, binary, list)
		if got := strings.Join(strings.Fields(out), " "); got != test.want {
			t.Errorf("%s: the loop saw %q, want %q; %s", test.line, got, test.want, errs)
		}
	}
	const note = "note: mpiexec read 12 bytes of standard input that no rank used; to leave standard input unread, use -stdin none"
	for _, test := range []struct {
		line string
		note bool
	}{
		{`cat "$1" | "$0" -n 1 true`, true},
		{`cat "$1" | "$0" -host n1 -n 1 true`, true},
		{`cat "$1" | "$0" -q -n 1 true`, false},
		{`cat "$1" | "$0" -stdin none -n 1 true`, false},
		{`cat "$1" | "$0" -n 1 head -1`, false},
		{`cat "$1" | "$0" -n 1 false`, false},
		{`"$0" -n 1 true <"$1"`, false},
		{`"$0" -n 1 true </dev/null`, false},
	} {
		// Standard error is a terminal; what is left in a pipe when a job has ended is nobody's.
		out, errs, _ := b.runOnHead(t, "script", "-qec", `sh -c '`+test.line+`' `+binary+" "+list, "/dev/null")
		if strings.Contains(out, note) != test.note {
			t.Errorf("%s: %q %q, want a note: %v", test.line, out, errs, test.note)
		}
	}
}

// A commandCase is a command line of testdata/habits.txt, and what comes of it.
type commandCase struct {
	line string
	code int
	out  *string // its lines sorted; nil: any
	has  []*regexp.Regexp
	errs []*regexp.Regexp
}

// readCommandCases reads testdata/habits.txt, and writes its files into a folder.
func readCommandCases(t *testing.T, dir string) (all []*commandCase) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repoRoot, "testdata", "habits.txt"))
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	file := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		kind, rest, _ := strings.Cut(line, " ")
		switch {
		case kind == "--":
			file = rest
		case kind == ">":
			file = ""
			all = append(all, &commandCase{line: rest})
		case file != "" && line != "":
			files[file] += line + "\n"
		case line == "":
			file = ""
		case line[0] == '#':
		case kind == "=":
			all[len(all)-1].out = &rest
		case kind == "~":
			all[len(all)-1].has = append(all[len(all)-1].has, regexp.MustCompile(rest))
		case kind == "!":
			all[len(all)-1].errs = append(all[len(all)-1].errs, regexp.MustCompile(rest))
		default:
			if all[len(all)-1].code, err = strconv.Atoi(line); err != nil {
				t.Fatalf("testdata/habits.txt: %q", line)
			}
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// sharingNotes are the notes of a machine with few CPUs.
var sharingNotes = regexp.MustCompile(`(?m)^mpiexec: .*\bshare\b.*\n`)

// check says what is wrong with what came of a line; empty: nothing.
func (h *commandCase) check(out, errs string, code int) string {
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	slices.Sort(lines)
	switch sorted := strings.Join(lines, " "); {
	case code != h.code:
		return fmt.Sprintf("exit code %d, want %d", code, h.code)
	case h.out != nil && sorted != *h.out:
		return fmt.Sprintf("output %q, want %q", sorted, *h.out)
	case h.out == nil && h.has == nil && out != "":
		return "output, of which nothing is said"
	case h.errs == nil && sharingNotes.ReplaceAllString(errs, "") != "":
		return "a message, of which nothing is said"
	}
	for _, want := range h.has {
		if !want.MatchString(out) {
			return fmt.Sprintf("no %q in its output", want)
		}
	}
	for _, want := range h.errs {
		if !want.MatchString(errs) {
			return fmt.Sprintf("no message %q", want)
		}
	}
	return ""
}

// Command lines of other launchers run, act or are answered: each does what testdata/habits.txt says.
func TestHabits(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	dir, err := os.MkdirTemp(filepath.Join(repoRoot, "build"), "habits-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	all := readCommandCases(t, dir)
	if len(all) < 150 {
		t.Errorf("%d lines, of 150", len(all))
	}
	names := t.TempDir()
	for _, name := range []string{"mpiexec", "mpiexec.hydra", "mpirun", "orterun"} {
		if err := os.Symlink(binary, filepath.Join(names, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range all {
		out, errs, code := b.runOnHead(t, "sh", "-c", "cd "+dir+"; PATH="+names+":$PATH\n"+h.line)
		if wrong := h.check(out, errs, code); wrong != "" {
			t.Errorf("%s\n%s\nexit code %d\n%s\n%s", h.line, wrong, code, out, errs)
		}
	}
}
