package aprun

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

var files = map[string]string{
	"cpus":  "# of the first four\n0-1 :\n 4-5 # and these\n",
	"hosts": "5\n1-2\n1\n",
}

// testEnv knows three long options.
var testEnv = Env{
	Read: func(name string) (string, error) {
		if text, there := files[name]; there {
			return text, nil
		}
		return "", errors.New("no such file")
	},
	HasOption: func(string) bool { return true },
	OptionWords: func(args []string) int {
		return map[string]int{"--sort": 2, "--class": 2, "--contiguous": 1, "--share-hosts": 1, "--membind": 2, "--bind-to": 2, "--no-pin": 1, "--omp-places": 2}[args[0]]
	},
}

// The options of aprun.md 2 and their translations. All begin with --sort none --no-share-hosts, unless the line sets
// others.
func TestTranslate(t *testing.T) {
	const local = "-membind local "
	for line, want := range map[string]string{
		"-n 20 a":                        local + "-n 20 -- a",
		"-n20 a":                         local + "-n 20 -- a",
		"a":                              local + "-n 1 -- a",
		"-n 10 -N 4 a":                   local + "-n 10 --shape 4 -- a",
		"-n 6 -d 3 -N 1 a":               local + "-n 6 --depth 3 --shape 1 -- a",
		"-n 8 -S 3 -sn 1 a":              local + "-n 8 --per-numa 3 --numa-nodes 1 -- a",
		"-n 2 -d 3 -ss a":                "-n 2 --depth 3 --strict-mem -- a",
		"-sl 0,2-3 a":                    local + "--numa-list 0,2-3 -n 1 -- a",
		"-n 4 -d 2 -S 2 -cc numa_node a": "--bind-to numa " + local + "-n 4 --depth 2 --per-numa 2 -- a",
		"-n 2 -d 3 -cc depth a":          "--omp-places depth " + local + "-n 2 --depth 3 -- a",
		"-cc none a":                     "--bind-to none " + local + "-n 1 -- a",
		"-n 2 -cc 0,4 a":                 "--bind-to user:0,4 " + local + "-n 2 -- a",
		"-n 2 -cc 0-1:4-5 a":             "--bind-to user:0+1,4+5 " + local + "-n 2 -- a",
		"-n 3 -cc 2:x a":                 "--bind-to user:2,none " + local + "-n 3 -- a",
		"-cc x a":                        "--bind-to none " + local + "-n 1 -- a",
		"-n 2 -cp cpus a":                "--bind-to user:0+1,4+5 " + local + "-n 2 -- a",
		"-n 2 -d 2 -j 2 a":               local + "-n 2 --depth 2 --hw-threads 2 -- a",
		"-n 8 -r 1 a":                    "--reserve-cpus 1 " + local + "-n 8 -- a",
		"-n 4 -m 3G a":                   "--mem-per-rank 3G " + local + "-n 4 -- a",
		"-m 512 a":                       "--mem-per-rank 512 " + local + "-n 1 -- a",
		"-m 512h a":                      "--mem-per-rank 512h " + local + "-n 1 -- a",
		"-m 3Ghs a":                      "--mem-per-rank 3Ghs " + local + "-n 1 -- a",
		"-L 5,1-2,1 -n 10 a":             "--nodes 1-2,5 " + local + "-n 10 -- a",
		"-l hosts a":                     "--nodes 1-2,5 " + local + "-n 1 -- a",
		"-L n3,n1,n3 a":                  local + "-host n3,n1 -n 1 -- a",
		"-L 3,node4,3 a":                 "--nodes 3,node4 " + local + "-n 1 -- a",
		"-L 9-3 a":                       "--nodes 9-3 " + local + "-n 1 -- a",
		"-a x86_64 a":                    local + "-arch x86_64 -n 1 -- a",
		"-F exclusive -q -t 60 a":        "--exclusive --quiet --limit pcput=60 " + local + "-n 1 -- a",
		"-F share -e A=b -e C=d=e a":     "--no-exclusive -genv A=b -genv C=d=e " + local + "-n 1 -- a",
		"-D 0 a":                         local + "-n 1 -- a",
		"-D1 a":                          "-v " + local + "-n 1 -- a",
		"-D 7 -T -b a":                   "-vv " + local + "-n 1 -- a",
		"-n 4 -d 2 a : -n 3 -N 1 b":      local + "-n 4 --depth 2 -- a : -n 3 --shape 1 -- b",
		"-n 4 a -n 3 : b":                local + "-n 4 -- a -n 3 : -n 1 -- b",
		"--contiguous --class amd a":     local + "--contiguous --class amd -n 1 -- a",
		"--membind none a":               "--membind none -n 1 -- a",
		"-n 2 -- a : b":                  "-separator :: --sort none --no-share-hosts " + local + "-n 2 -- a : b",
		"--sort load a":                  "--no-share-hosts " + local + "--sort load -n 1 -- a",
		"--share-hosts a":                "--sort none " + local + "--share-hosts -n 1 -- a",
	} {
		if !strings.Contains(want, "--sort ") && !strings.Contains(want, "--share-hosts") {
			want = "--sort none --no-share-hosts " + want
		}
		got, err := Translate(strings.Fields(line), testEnv)
		if i := slices.Index(got.Args, "--omp-places"); i >= 0 && got.Args[i+1] == "cpu" && !strings.Contains(line, "-cc") { // the default, which the cases leave out
			got.Args = slices.Delete(got.Args, i, i+2)
		}
		got.Args = slices.DeleteFunc(got.Args, func(word string) bool { return word == "--usage=application" && !strings.Contains(line, "-q") })
		if err != nil || strings.Join(got.Args, " ") != want || got.Warnings != nil || got.Help {
			t.Errorf("%s:\n got %s\nwant %s\n%v %v", line, strings.Join(got.Args, " "), want, err, got.Warnings)
		}
	}
}

// Each thread is bound to a CPU of its own, unless -cc or a long option sets the binding (aprun.md 3).
func TestPlaces(t *testing.T) {
	for line, want := range map[string]string{
		"a": "cpu", "-n 2 -d 2 a : b": "cpu", "-cc cpu a": "cpu", "-cc depth a": "depth", "-cc depth a : b": "depth",
		"-cc none a": "", "-cc numa_node a": "", "-cc 0,4 a": "", "-cp cpus a": "", "--bind-to core a": "", "--no-pin a": "", "--omp-places depth a": "depth",
	} {
		got, err := Translate(strings.Fields(line), testEnv)
		said, times := "", 0
		for i, word := range got.Args {
			if word == "--omp-places" {
				said, times = got.Args[i+1], times+1
			}
		}
		if err != nil || said != want || times > 1 {
			t.Errorf("%s: %q in %q, %v; want %q", line, said, got.Args, err, want)
		}
	}
}

func TestTranslateFaults(t *testing.T) {
	for line, want := range map[string]string{
		"-n 4 : b":      `the program before ":" is missing`,
		"a : -n 2":      `the program after ":" is missing`,
		"-x a":          `unknown option "-x"`,
		"-host n1 a":    `unknown option "-host"`,
		"-n":            "-n needs a value",
		"-d 0 a":        `-d: "0" is not a number of CPUs`,
		"-cc cpus a":    `-cc: "cpus" is not cpu, depth, numa_node, none`,
		"-cc 3-1 a":     `-cc: "3-1" is not cpu`,
		"-cc 0-65536 a": "-cc: ",
		"-cc 2,x a":     `-cc: "2,x" is not cpu`,
		"-cp nothing a": "-cp: no such file",
		"-L , a":        "-L: the list of hosts is empty",
		"-F some a":     `-F: "some" is neither "exclusive" nor "share"`,
		"-t 1h a":       `-t: "1h" is not a number of seconds`,
		"-e A a":        `-e: "A" is not NAME=VALUE`,
		"-B a":          "-B: no batch system has allocated hosts",
		"-D much a":     `-D: "much" is not a number`,
	} {
		if got, err := Translate(strings.Fields(line), testEnv); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want %s", line, got.Args, err, want)
		}
	}
	got, err := Translate(strings.Fields("-C -R 2 -p x -P y a"), testEnv)
	if err != nil || len(got.Warnings) != 4 || !strings.HasPrefix(got.Warnings[0], "-C is ignored") {
		t.Errorf("%v, %v", got.Warnings, err)
	}
	granted := testEnv
	granted.InAllocation = true
	if got, err := Translate([]string{"-B", "a"}, granted); err != nil || strings.Contains(strings.Join(got.Args, " "), "-n ") {
		t.Errorf("-B: %v, %v", got.Args, err)
	}
	for _, line := range []string{"-B -n 4 a", "-m 3G -B a", "-d 2 a : -B b", "-B -N1 a"} {
		if got, err := Translate(strings.Fields(line), granted); err == nil || !strings.Contains(err.Error(), "the batch system sets that") {
			t.Errorf("%s: %v, %v", line, got.Args, err)
		}
	}
	if got, err := Translate([]string{"--help"}, testEnv); err != nil || !got.Help {
		t.Errorf("--help: %+v, %v", got, err)
	}
}

// The examples of the table in aprun.md 3.
func TestMasks(t *testing.T) {
	for _, test := range []struct {
		list  string
		depth int
		want  string
	}{
		{"0,4", 1, "[[0] [4]]"},
		{"0-1:4-5", 1, "[[0 1] [4 5]]"},
		{"0-3", 2, "[[0 1] [2 3]]"},
		{"0-2", 2, "[[0 1] [0 2] [1 2]]"}, // (i * d) mod k to (i * d + d - 1) mod k
		{"3,2,1,0", 2, "[[2 3] [0 1]]"},
		{"5", 3, "[[5]]"},
		{"0-3", 4, "[[0 1 2 3]]"},
		{"2:x", 1, "[[2] []]"},
		{"x", 2, "[[]]"},
	} {
		if got, err := Masks(test.list, test.depth); err != nil || fmt.Sprint(got) != test.want {
			t.Errorf("%s of %d: %v, %v; want %s", test.list, test.depth, got, err, test.want)
		}
	}
}

// Help and manual page list every option.
func TestHelp(t *testing.T) {
	help, page := Help(), Man("1-2")
	for _, r := range letterRows {
		if !strings.Contains(help, "  -"+r.letters+" ") || !strings.Contains(page, `\-`+r.letters) {
			t.Errorf("-%s is not told of", r.letters)
		}
	}
	for line := range strings.Lines(help) {
		if len(line) > 110 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}

// For each line, Translate returns an error or keeps all words of the program.
func FuzzTranslate(f *testing.F) {
	for _, line := range []string{"-n 4 -d 2 a : -n 3 -N 1 b", "-cc 0-1:4-5 a", "-B -m 3Ghs a", "-L 5,1-2 -n10 -- a : b", "--sort", "-", "-cp cpus"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words := strings.Fields(line)
		got, err := Translate(append(words, "--", "program", "last"), testEnv)
		if err == nil && !got.Help && (len(got.Args) < 2 || strings.Join(got.Args[len(got.Args)-2:], " ") != "program last" && len(words) == 0) {
			t.Errorf("%q: %q", line, got.Args)
		}
	})
}
