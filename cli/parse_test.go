package cli

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"remshell/hostlist"
)

// TestLines reads testdata/cli/lines.txt: "> " and a command line as one types
// it after "mpiexec", then, indented, what is understood or refused.
func TestLines(t *testing.T) {
	data, err := os.ReadFile("../testdata/cli/lines.txt")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, part := range strings.Split("\n"+string(data), "\n> ")[1:] {
		line, want, _ := strings.Cut(part, "\n")
		want, _, _ = strings.Cut(want+"\n#", "\n#")
		args, err := shellSplit(line)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		count++
		if got := outcome(args); got != strings.TrimRight(want, "\n") {
			t.Errorf("> %s\ngot:\n%s\nwant:\n%s", line, got, want)
		}
	}
	if count < 80 {
		t.Errorf("%d lines; there should be many more", count)
	}
}

// outcome is the result of a command line as lines.txt writes it.
func outcome(args []string) string {
	line, err := Parse(args)
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
	switch job := fields(line.Job); {
	case line.Help != nil:
		add("help %s", line.Help.Option)
	case line.Version:
		add("version")
	case job != "":
		add("job: %s", job)
	}
	for _, s := range line.Sections {
		words := make([]string, len(s.Args))
		for i, arg := range s.Args {
			words[i] = " " + quote(arg)
		}
		options := strings.TrimSpace(fields(s.SectionOptions) + " " + fields(s.SharedOptions))
		add("%d: %s | %s%s", s.Number, options, quote(s.Program), strings.Join(words, ""))
	}
	return strings.Join(lines, "\n")
}

// fields writes the fields of a struct that are not zero.
func fields(of any) string {
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
	case EnvTake:
		return fmt.Sprintf("%q", value.Names)
	case []EnvVar:
		var words []string
		for _, v := range value {
			if v.Copy {
				words = append(words, v.Name)
			} else {
				words = append(words, v.Name+"="+v.Value)
			}
		}
		return fmt.Sprintf("%q", words)
	case Words, []string:
		return fmt.Sprintf("%q", value)
	}
	return fmt.Sprint(value)
}
