package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"remshell/job"
)

// A hostFileCase is a host file of testdata/hostlist, and the expected result.
type hostFileCase struct{ title, file, want string }

// readHostFileCases reads cases from testdata/hostlist. It changes to a new directory, in which the test writes the
// host file F, with two files that F may include.
func readHostFileCases(t *testing.T, name string) []hostFileCase {
	t.Helper()
	text, err := os.ReadFile("../testdata/hostlist/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var all []hostFileCase
	for _, part := range strings.Split(string(text), "\n--- ")[1:] {
		title, rest, _ := strings.Cut(part, "\n")
		file, want, ok := strings.Cut(rest, "\n=>\n")
		if !ok {
			t.Fatalf("%s: %q has no =>", name, title)
		}
		all = append(all, hostFileCase{title, file + "\n", strings.TrimSuffix(want, "\n")})
	}
	t.Chdir(t.TempDir())
	writeTestFile(t, "other.hosts", "other1\nother2:4\n")
	writeTestFile(t, "loop.hosts", "!include F\n")
	return all
}

func writeTestFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The host files of all launchers, through the command line. Each host gets as many ranks as it has slots, in the
// order of the file, and one rank more does not fit.
func TestHostFileStyles(t *testing.T) {
	const cores = 6
	for _, s := range readHostFileCases(t, "styles.txt") {
		slots, order := parseEntries(s.want, cores)
		var nodes []string
		var want []string
		for i, name := range order {
			nodes = append(nodes, fmt.Sprintf(`{"id": %d, "name": %q, "cpus": %d}`, len(order)-i, name, cores))
			want = append(want, slices.Repeat([]string{name}, slots[name])...)
		}
		state := []byte(`{"env": {}, "nodes": [` + strings.Join(nodes, ",") + "]}")
		writeTestFile(t, "F", s.file)
		for _, option := range []string{"-hostfile", "-f", "-machinefile"} {
			object, code, _ := planOf(t, state, option, "F", "-n", strconv.Itoa(len(want)))
			if got := hostsOf(object); code != 0 || !slices.Equal(got, want) || !slices.Equal(texts(object["order"]), order) {
				t.Errorf("%s:\n%sexit %d, ranks on %q\nwant %q\nin %s", s.title, s.file, code, got, want, jsonText(object))
			}
		}
		object, code, _ := planOf(t, state, "-f", "F", "-n", strconv.Itoa(len(want)+1))
		if failed, _ := object["error"].(map[string]any); code != job.ExitInternal || failed["code"] != "not-enough-cpus" || failed["permanent"] != true {
			t.Errorf("%s, a rank more: exit %d, %s", s.title, code, jsonText(object))
		}
	}
}

// parseEntries returns slots by host and the order of hosts for a list of host entries. Slots of one host add up. An
// entry without a count is one slot if the host has several entries, else all its CPUs (HOST-3, HOST-4).
func parseEntries(entries string, cores int) (slots map[string]int, order []string) {
	slots, seen := make(map[string]int), make(map[string]int)
	for line := range strings.SplitSeq(entries, "\n") {
		words := strings.Fields(line)
		name := words[0]
		count := 0
		for _, word := range words[1:] {
			if text, ok := strings.CutPrefix(word, "slots="); ok {
				count, _ = strconv.Atoi(text)
			}
			if text, ok := strings.CutPrefix(word, "alias="); ok {
				name = text
			}
		}
		if out, ok := strings.CutPrefix(name, "^"); ok {
			order = slices.DeleteFunc(order, func(n string) bool { return n == out })
			continue
		}
		if seen[name]++; seen[name] == 1 {
			order = append(order, name)
		}
		slots[name] += count
	}
	for name, entries := range seen {
		switch {
		case slots[name] > 0:
		case entries == 1:
			slots[name] = cores
		default:
			slots[name] = entries
		}
	}
	return slots, order
}

func hostsOf(object map[string]any) (hosts []string) {
	ranks, _ := object["ranks"].([]any)
	for _, r := range ranks {
		hosts = append(hosts, fmt.Sprint(r.(map[string]any)["node"]))
	}
	return hosts
}

func texts(list any) (all []string) {
	items, _ := list.([]any)
	for _, item := range items {
		all = append(all, fmt.Sprint(item))
	}
	return all
}

// Each error of a host file is printed with file, line, column and a caret. Nothing is started, and the exit code is
// 125. The JSON of a plan contains the same error.
func TestBrokenHostFiles(t *testing.T) {
	all := readHostFileCases(t, "broken.txt")
	if len(all) < 10 {
		t.Errorf("%d broken files; at least ten are wanted", len(all))
	}
	for _, s := range all {
		writeTestFile(t, "F", s.file)
		// The expected texts come from a file system in memory, whose error is worded differently.
		faults := strings.ReplaceAll(s.want, fs.ErrNotExist.Error(), "no such file or directory")
		var out, errs bytes.Buffer
		code := Main(context.Background(), []string{"-hostfile", "F", "-n", "1", "true"}, System{Out: &out, Err: &errs, Getwd: os.Getwd})
		var want strings.Builder
		for line := range strings.Lines(faults + "\n") {
			if !strings.HasPrefix(line, " ") {
				line = "mpiexec: " + line
			}
			want.WriteString(line)
		}
		if code != job.ExitInternal || out.Len() > 0 || errs.String() != want.String() {
			t.Errorf("%s: exit %d, output %q, says\n%s\nwant\n%s", s.title, code, &out, &errs, &want)
		}
		object, code, _ := planOf(t, []byte(`{"env": {}, "nodes": [{"id": 0, "name": "a", "cpus": 1}]}`), "-f", "F", "-n", "1")
		failed, _ := object["error"].(map[string]any)
		if message := fmt.Sprint(failed["message"]); code != job.ExitInternal || failed["code"] != "bad-hostfile" || !strings.Contains(message, faults) {
			t.Errorf("%s: the plan says %s\nwant %s", s.title, message, faults)
		}
	}
}

// Two names of one node share its slots (HOST-8); an alias is a node of its own.
func TestPlanNamesOfOneNode(t *testing.T) {
	const nodes = `{"env": {}, "nodes": [{"id": 0, "name": "n0", "aliases": ["n0.example.org"], "cpus": 4}, {"id": 1, "name": "box", "cpus": 4}]}`
	for _, test := range []struct{ host, want string }{
		{"n0:1,N0.example.org:2", "n0 n0 n0"},
		{"box:1,n0.example.org:1,n0:1", "box n0 n0"},
		{"n0.example.org,n0", "n0 n0 n0 n0"},
	} {
		want := strings.Fields(test.want)
		object, code, text := planOf(t, []byte(nodes), "-host", test.host, "-n", strconv.Itoa(len(want)))
		if got := hostsOf(object); code != 0 || !slices.Equal(got, want) {
			t.Errorf("%s: exit %d, %q; want %q\n%s", test.host, code, got, want, text)
		}
		if _, code, _ := planOf(t, []byte(nodes), "-host", test.host, "-n", strconv.Itoa(len(want)+1)); code == 0 {
			t.Errorf("%s: room for more than %d", test.host, len(want))
		}
	}
}

// With --hosts-unique or its variable, repeated hosts add no slots (HOST-4): the node has as many as CPUs.
func TestPlanUnique(t *testing.T) {
	const nodes = `{"env": {%s}, "nodes": [{"id": 0, "name": "n0", "cpus": 4}, {"id": 1, "name": "n1", "cpus": 4}]}`
	t.Chdir(t.TempDir())
	writeTestFile(t, "F", "n0\nn0\nn1\nn0\n")
	for _, test := range []struct {
		env, option, want string
		of                []string
	}{
		{"", "", "n0 n0 n0 n1", []string{"-f", "F", "-n", "4"}},
		{"", "--hosts-unique", "n0 n0 n0 n0", []string{"-f", "F", "-n", "4"}},
		{`"PSI_HOSTS_UNIQUE": ""`, "", "n0 n0 n0 n0", []string{"-f", "F", "-n", "4"}},
		{`"PSI_HOSTS_UNIQUE": ""`, "--no-hosts-unique", "n0 n0 n0 n1", []string{"-f", "F", "-n", "4"}},
		{"", "--hosts-unique", "n1 n1 n1 n1 n0", []string{"-host", "n1,n0,n1", "-n", "5"}},
		{"", "--hosts-unique", "n0 n0", []string{"-f", "F", "-host", "n0,n0", "-n", "2"}},
	} {
		args := test.of
		if test.option != "" {
			args = append([]string{test.option}, args...)
		}
		object, _, text := planOf(t, fmt.Appendf(nil, nodes, test.env), args...)
		if got := strings.Join(hostsOf(object), " "); got != test.want {
			t.Errorf("%s %q: %s; want %s\n%s", test.env, args, got, test.want, text)
		}
	}
}

// A message names the variable, the token, and what is allowed (1.5).
func TestExampleMessages(t *testing.T) {
	data, err := os.ReadFile("../testdata/placement/examples.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Examples []struct {
			Number int
			State  json.RawMessage
		}
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, e := range all.Examples {
		object, _, _ := planOf(t, e.State)
		failed, _ := object["error"].(map[string]any)
		if failed == nil {
			continue
		}
		message := fmt.Sprint(failed["message"])
		for _, key := range []string{"variable", "token"} {
			if text, ok := failed[key].(string); ok && !strings.Contains(message, text) {
				t.Errorf("%d: %q lacks the %s %q", e.Number, message, key, text)
			}
		}
		for _, word := range texts(failed["allowed"]) {
			told++
			if !strings.Contains(message, word) {
				t.Errorf("%d: %q lacks %q", e.Number, message, word)
			}
		}
	}
	if told == 0 {
		t.Error("no example says what is allowed")
	}
}
