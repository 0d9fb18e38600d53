package trace

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remshell/stack"
	"remshell/stack/python"
)

// interpreters returns the Python interpreters of this machine whose version is read, those of pyenv too.
func interpreters(t *testing.T) (all []string) {
	t.Helper()
	for minor := 9; minor <= 13; minor++ {
		name := fmt.Sprintf("python3.%d", minor)
		candidates, _ := filepath.Glob(os.ExpandEnv("$HOME/.pyenv/versions/3." + fmt.Sprint(minor) + ".*/bin/" + name))
		for _, candidate := range append(candidates, "/usr/bin/"+name, "/usr/local/bin/"+name) {
			if exec.Command(candidate, "-c", "").Run() == nil {
				all = append(all, candidate)
			}
		}
	}
	if len(all) == 0 {
		t.Skip("needs Python 3.9 to 3.13")
	}
	return all
}

const inPython = `import sys, time, threading

class Box:
    def enter(self):
        def inner(n):
            if n == 0:
                sorted([2], key=lambda x: leaf())
            else:
                inner(
                    n - 1)
        inner(1)

def gen():
    yield 1
    if sys.argv[1] == "sleep":
        time.sleep(1000)
    while True:
        pass

def leaf():
    for i in gen():
        pass

def worker_\u00e4():
    time.sleep(1000)

threading.Thread(target=worker_\u00e4, daemon=True).start()
print("ready", flush=True)
Box().enter()
`

// The functions, files and lines of Python are read in each version that the table has, of each thread.
func TestPython(t *testing.T) {
	script := filepath.Join(t.TempDir(), "planted.py")
	if err := os.WriteFile(script, []byte(strings.ReplaceAll(inPython, `\u00e4`, "ä")), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, interpreter := range interpreters(t) {
		for how, line := range map[string]string{"sleep": "gen:16", "loop": "gen:17"} {
			t.Run(interpreter+" "+how, func(t *testing.T) {
				pid := start(t, interpreter, script, how)
				want := []string{line, "leaf:21", "<lambda>:7", "inner:7", "inner:9", "enter:11", "<module>:29"}
				var got [2][]string
				entries, evaluators := 0, 1
				for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); { // it may not be there yet
					got, entries, evaluators = pythonOf(t, pid)
					if like(got[0], want) && strings.HasPrefix(strings.Join(got[1], " "), "worker_ä:25") && entries == evaluators {
						return
					}
				}
				t.Errorf("%q, want %q and worker_ä; %d calls by %d evaluators", got, want, entries, evaluators)
			})
		}
	}
}

// like reports whether calls are those of 3.11 and later, or those of earlier versions, without qualified names. A loop may be at its
// next line.
func like(got, want []string) bool {
	if len(got) != len(want) {
		return false
	}
	for i, g := range got {
		name := g[strings.LastIndexByte(g, '.')+1:]
		if name != want[i] && !(name == "gen:18" && want[i] == "gen:17") {
			return false
		}
	}
	return true
}

// pythonOf returns the calls of the first two threads, innermost first, each with its line. entries is how many of the main thread's
// have an evaluator of their own, and evaluators how many are on its stack.
func pythonOf(t *testing.T, pid int) (all [2][]string, entries, evaluators int) {
	t.Helper()
	var images Images
	defer images.Close()
	mappings, err := images.Mappings(pid)
	if err != nil {
		t.Fatal(err)
	}
	py := new(python.Finder).Find(mappings, MemoryOf(pid))
	if py == nil {
		t.Fatal("it has no Python that is read")
	}
	p, err := Capture(pid, py)
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Threads[:min(2, len(p.Threads))] {
		th := &p.Threads[i]
		for _, c := range th.Calls {
			at, _ := py.Locate(p.Memory(th), c)
			if c.Entry && i == 0 {
				entries++
			}
			all[i] = append(all[i], fmt.Sprintf("%s:%d", at.Function, at.Line))
		}
	}
	main := &p.Threads[0]
	for _, a := range stack.Unwind(Host, main.Registers, p.Memory(main), mappings) {
		if a.Mapping != nil && a.Mapping.Image == py.Image && py.Evaluates(a.Address) {
			evaluators++
		}
	}
	return all, entries, evaluators
}

// An interpreter whose version is not read is left to its machine code.
func TestPythonThatIsNotRead(t *testing.T) {
	all, _ := filepath.Glob(os.ExpandEnv("$HOME/.pyenv/versions/3.8.*/bin/python3.8"))
	if len(all) == 0 {
		t.Skip("needs Python 3.8")
	}
	pid := start(t, all[0], "-c", "print('ready', flush=True); import time; time.sleep(1000)")
	var images Images
	defer images.Close()
	mappings, err := images.Mappings(pid)
	if err != nil {
		t.Fatal(err)
	}
	if py := new(python.Finder).Find(mappings, MemoryOf(pid)); py != nil {
		t.Error("it is read")
	}
}
