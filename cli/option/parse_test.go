package option

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/hostlist"
	"remshell/pin"
)

var update = flag.Bool("update", false, "write what comes out into testdata and doc; read the difference")

// TestLines checks testdata/cli/lines.txt. It has "> " and the arguments of mpiexec, or "$ " and a line with variables
// before the word mpiexec; below, indented, the parsed line or the errors. Files of the lines are beside it.
func TestLines(t *testing.T) {
	data, err := os.ReadFile("../../testdata/cli/lines.txt")
	if err != nil {
		t.Fatal(err)
	}
	ofRows := strings.NewReplacer(strings.ReplaceAll(withRows("{launchers}"), ",", ", "), "{launchers}", strings.ReplaceAll(withRows("{systems}"), ",", ", "), "{systems}",
		strings.Join(pin.Mapping{}.Choices(), ", "), "{mappings}")
	count := 0
	var out []string
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	for i := 0; i < len(lines); {
		line := lines[i]
		out = append(out, line)
		i++
		if !strings.HasPrefix(line, "> ") && !strings.HasPrefix(line, "$ ") {
			continue
		}
		var want []string
		for i < len(lines) && strings.HasPrefix(lines[i], "  ") {
			want = append(want, lines[i])
			i++
		}
		args, err := shellSplit(line[2:])
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		count++
		got := ofRows.Replace(lineOutcome(variablesFirst(line[0] == '$', args))) // a new batch system or policy changes no line
		out = append(out, got)
		if got != strings.Join(want, "\n") && !*update {
			t.Errorf("%s\ngot:\n%s\nwant:\n%s", line, got, strings.Join(want, "\n"))
		}
	}
	if count < 300 {
		t.Errorf("%d lines; there should be 300", count)
	}
	if *update {
		if err := os.WriteFile("../../testdata/cli/lines.txt", []byte(strings.Join(out, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// variablesFirst splits the words of a line into variables before mpiexec and its arguments.
func variablesFirst(there bool, words []string) (Sources, []string) {
	from := Sources{Environ: []string{}, Read: func(name string) (string, error) {
		text, err := os.ReadFile("../../testdata/cli/" + name)
		if err != nil {
			err = &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		return string(text), err
	}}
	if i := slices.Index(words, "mpiexec"); there && i >= 0 {
		from.Environ, words = words[:i], words[i+1:]
	}
	return from, words
}

// lineOutcome returns the result of a command line in the form of lines.txt.
func lineOutcome(from Sources, args []string) string {
	line, err := Mpiexec(linuxSignals).Parse(args, from)
	var lines []string
	add := func(format string, args ...any) {
		text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\n    ")
		lines = append(lines, "  "+strings.TrimRight(text, " "))
	}
	var all UsageErrors
	if errors.As(err, &all) {
		for _, err := range all {
			hint := ""
			if h, ok := err.(interface{ Hint() string }); ok && h.Hint() != "" {
				hint = "; " + h.Hint()
			}
			add("error: %v%s", err, hint)
		}
	}
	for _, text := range line.Warnings {
		add("warning: %s", text)
	}
	switch job := nonZeroFields(line.Job); {
	case line.Help != nil:
		add("help %s", line.Help.Option)
	case line.Version:
		add("version")
	case line.ListPMI:
		add("offers")
	case job != "":
		add("job: %s", job)
	}
	for _, s := range line.Apps {
		words := make([]string, len(s.Args))
		for i, arg := range s.Args {
			words[i] = " " + ShellQuote(arg)
		}
		options := strings.TrimSpace(nonZeroFields(s.AppOptions) + " " + nonZeroFields(s.InheritedOptions))
		add("%d: %s | %s%s", s.Number, options, ShellQuote(s.Program), strings.Join(words, ""))
	}
	return strings.Join(lines, "\n")
}

// nonZeroFields formats the fields of a struct that are not zero.
func nonZeroFields(of any) string {
	var words []string
	v := reflect.ValueOf(of)
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			words = append(words, v.Type().Field(i).Name+"="+lineText(v.Field(i).Interface()))
		}
	}
	return strings.Join(words, " ")
}

func lineText(value any) string {
	switch value := value.(type) {
	case *Seconds:
		return time.Duration(*value).String()
	case Seconds:
		return time.Duration(value).String()
	case []HostExpr:
		var names []string
		for _, expr := range value {
			for _, e := range expr {
				names = append(names, strings.TrimSuffix(fmt.Sprintf("%s:%d", e.Host, e.Slots), ":0"))
			}
		}
		return hostlist.FoldList(names)
	case EnvImport:
		return fmt.Sprintf("%q", value.Names)
	case []EnvVar:
		var words []string
		for _, v := range value {
			if v.Inherited {
				words = append(words, v.Name)
			} else {
				words = append(words, v.Name+"="+v.Value)
			}
		}
		return fmt.Sprintf("%q", words)
	case Soft:
		return fmt.Sprint(value.Members)
	case Export:
		text := lineText(value.Vars)
		if value.All {
			text = "ALL" + text
		}
		return text
	case pin.Mapping:
		return value.Text
	case pin.Ranking:
		return value.Text
	case pin.Binding:
		return value.Text
	case pin.Memory:
		return value.Text
	case ShellWords, []string:
		return fmt.Sprintf("%q", value)
	}
	return fmt.Sprint(value)
}

// linuxSignals are the signals of Linux that lines.txt uses.
func linuxSignals(name string) int {
	return map[string]int{"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGKILL": 9, "SIGUSR1": 10, "SIGUSR2": 12, "SIGALRM": 14, "SIGTERM": 15, "SIGCONT": 18, "SIGSTOP": 19, "SIGURG": 23, "SIGXCPU": 24, "SIGWINCH": 28}[name]
}

// A switch in the user's configuration may have a yes or no, also one that stands for a value of another option.
func TestSwitchInConfigurationWithYesOrNo(t *testing.T) {
	for text, want := range map[string]string{
		"display-map = yes":      "map",
		"display-map yes":        "map",
		"--display-map=on":       "map",
		"display-map = no":       "",
		"print-rank-map = yes":   "map",
		"display-topo = yes":     "topo",
		"display-allocation = 1": "allocation",
		"leave-children = yes":   "children",
		"leave-children = no":    "",
		"pin = no":               "pin=no",
		"pin = yes":              "pin=yes",
		"no-pin = yes":           "pin=no",
		"no-pin = no":            "",
		"json-output = yes":      "json",
		"unbuffered = yes":       "raw",
	} {
		from := Sources{Environ: []string{"MPIEXEC_CONFIG=c"}, Read: func(string) (string, error) { return text, nil }}
		line, err := Mpiexec(linuxSignals).Parse([]string{"a"}, from)
		got := ""
		for _, list := range line.Job.Display {
			got += strings.Join(list, ",")
		}
		if line.Job.Children {
			got += "children"
		}
		if line.Job.Pin != "" {
			got += "pin=" + line.Job.Pin
		}
		for _, o := range line.Job.Output {
			got += o.Text
		}
		if err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
}
