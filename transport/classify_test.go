package transport

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// showsALine reports whether shown contains a whole line of text.
func showsALine(shown, text string) bool {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && strings.Contains(shown, line) {
			return true
		}
	}
	return false
}

// Each line of testdata/classify.txt has a kind, an exit code, and the stderr of a program.
func TestClassify(t *testing.T) {
	file, err := os.Open("testdata/classify.txt")
	check(t, err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		var kind Kind
		var exit int
		if n, err := fmt.Sscan(line, &kind, &exit); n != 2 {
			t.Fatalf("%q: %v", line, err)
		}
		text, err := strconv.Unquote(strings.TrimSpace(line[strings.IndexByte(line, '"'):]))
		check(t, err)
		v := Classify(text, exit)
		if v.Kind != kind {
			t.Errorf("%q, exit code %d: %s, want %s", text, exit, v.Kind, kind)
		}
		if v.Step == "" || v.Why == "" || strings.Contains(v.Why, "\n") {
			t.Errorf("%q: verdict %+v is not a line", text, v)
		}
		if shown := v.Why + " " + v.Line; lastLine(text) != "" && !showsALine(shown, text) {
			t.Errorf("%q: verdict %+v shows no line of it", text, v)
		}
		if strings.Contains(v.Why+v.Hint, "MaxStartups") && kind != KindBusy && !strings.Contains(v.Hint, "if there are many logins at once") {
			t.Errorf("%q: verdict %+v blames MaxStartups", text, v)
		}
	}
}
