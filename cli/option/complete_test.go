package option

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMain answers as mpiexec when a shell of the tests below calls this program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == CompletionOption {
		fmt.Print(Mpiexec(linuxSignals).Complete(os.Args[2:], knownNames))
		return
	}
	os.Exit(m.Run())
}

// knownNames are the hosts and jobs of these tests.
var knownNames = CompletionLists{
	Hosts: func() []string { return []string{"localhost", "n1", "n2"} },
	Jobs:  func() []string { return []string{"17-a", "last"} },
}

// Complete returns the candidates for the word at the cursor.
func TestComplete(t *testing.T) {
	for _, test := range []struct {
		words []string
		kind  CompletionKind
		from  int
		has   string // words that are offered, among others
		not   string
	}{
		{[]string{""}, CompleteProgram, 0, "", "-n"},
		{[]string{"hel"}, CompleteProgram, 0, "", ""},
		{[]string{"--bind-to", "co"}, CompleteWords, 0, "core", "socket none"},
		{[]string{"--bind-to", ""}, CompleteWords, 0, "core none user: cpu-list= rr", "user:SET"},
		{[]string{"--bind-to=nu"}, CompleteWords, 0, "--bind-to=numa", "numa"},
		{[]string{"--bindto", "CO"}, CompleteWords, 0, "core", ""},
		{[]string{"--map-by", "pp"}, CompleteWords, 0, "ppr:", "slot"},
		{[]string{"--rank-by", ""}, CompleteWords, 0, "fill span slot", ""},
		{[]string{"-membind", ""}, CompleteWords, 0, "local interleave bind:", ""},
		{[]string{"-launcher", "s"}, CompleteWords, 0, "ssh slurm", "fork"},
		{[]string{"--env-compat", "torch,"}, CompleteWords, 0, "torch,ompi", "torch,torch ompi"},
		{[]string{"--pmi", "pmi"}, CompleteWords, 0, "pmi1 pmi2 pmix", "both"},
		{[]string{"-usize", ""}, CompleteWords, 0, "SYSTEM INFINITE", ""},
		{[]string{"--output", "tag,time"}, CompleteWords, 0, "tag,timestamp", ""},
		{[]string{"-hostfile", "ho"}, CompleteFiles, 0, "", ""},
		{[]string{"-hostfile=ho"}, CompleteFiles, 10, "", ""},
		{[]string{"-wdir", ""}, CompleteFolders, 0, "", ""},
		{[]string{"-host", "n"}, CompleteWords, 0, "n1 n2", "localhost"},
		{[]string{"-host", "n1,"}, CompleteWords, 0, "n1,n2 n1,localhost", "n1,n1 n2"},
		{[]string{"--spawn-hosts", ""}, CompleteWords, 0, "n1 none candidates", ""},
		{[]string{"--ps", "n"}, CompleteWords, 0, "n1 n2", ""},
		{[]string{"--selftest", "n1", "n"}, CompleteWords, 0, "n2", ""},
		{[]string{"--doctor", "n"}, CompleteWords, 0, "n1", ""},
		{[]string{"--doctor", "-host", "n1", "hel"}, CompleteProgram, 0, "", ""},
		{[]string{"--doctor", "-n", "4", "hel"}, CompleteProgram, 0, "", ""},
		{[]string{"--doctor", "./hello", "inp"}, CompleteArguments, 1, "", ""},
		{[]string{"--doctor", "--cluster", "f", "n"}, CompleteWords, 0, "n1", ""},
		{[]string{"--evict", ""}, CompleteWords, 0, "17-a last", "n1"},
		{[]string{"--evict", "17-a", ""}, CompleteWords, 0, "n1", "17-a"},
		{[]string{"--evict=1"}, CompleteWords, 0, "--evict=17-a", ""},
		{[]string{"--evict", "17-a", ""}, CompleteWords, 0, "n1", ""},
		{[]string{"--signal", ""}, CompleteWords, 0, "USR1 TERM KILL", "17-a"},
		{[]string{"--signal", "TERM", ""}, CompleteWords, 0, "17-a last", "n1"},
		{[]string{"--signal", "TERM", "last", "n"}, CompleteWords, 0, "n1", ""},
		{[]string{"-genv", "A=1", "hel"}, CompleteProgram, 0, "", ""},
		{[]string{"-genv", "A", "1", "hel"}, CompleteProgram, 0, "", ""},
		{[]string{"--display", ""}, CompleteWords, 0, "map topo bind", ""},
		{[]string{"-help", "rea"}, CompleteWords, 0, "reaching", ""},
		{[]string{"-help", "-hostf"}, CompleteWords, 0, "-hostfile", ""},
		{[]string{"-"}, CompleteWords, 0, "-n --fanout -host", ""},
		{[]string{"--"}, CompleteWords, 0, "--fanout", "-host"},
		{[]string{"--hostf"}, CompleteWords, 0, "--hostfile", "-hostfile"},
		{[]string{"-n", "2", "./a", "-n"}, CompleteArguments, 2, "", "-np"},
		{[]string{"-n", "2", "--", "./a", "x"}, CompleteArguments, 3, "", ""},
		{[]string{"-n", "2", "--", "./a"}, CompleteProgram, 0, "", ""},
		{[]string{"-n", "1", "./a", "-x", ":", "-perh"}, CompleteWords, 0, "-perhost", ""},
		{[]string{"-n", "1", "./a", ":", "-n", "1", "./b", "x"}, CompleteArguments, 6, "", ""},
		{[]string{"--unknown", "x"}, CompleteProgram, 0, "", ""},
		{[]string{"-npernode", ""}, CompleteWords, 0, "", "n1"},
		{[]string{"--no-such=va"}, CompleteWords, 0, "", ""},
	} {
		got := Mpiexec(linuxSignals).Complete(test.words, knownNames)
		var offered []string
		for _, o := range got.Candidates {
			offered = append(offered, o[0])
		}
		for _, word := range strings.Fields(test.has) {
			if !slices.Contains(offered, word) {
				t.Errorf("%q: no %q in %q", test.words, word, offered)
			}
		}
		for _, word := range strings.Fields(test.not) {
			if slices.Contains(offered, word) {
				t.Errorf("%q: %q is offered", test.words, word)
			}
		}
		if got.Kind != test.kind || got.Start != test.from {
			t.Errorf("%q: %s from %d, want %s from %d", test.words, got.Kind, got.Start, test.kind, test.from)
		}
	}
}

// Every option with a fixed list of words completes it, and each type accepts all words of its Choices.
func TestEveryListedWordIsOffered(t *testing.T) {
	table, lists := Mpiexec(linuxSignals), 0
	for _, o := range table.options {
		words := o.choices()
		if words == nil {
			continue
		}
		lists++
		before := []string{o.Dashed, ""}
		if o.valueForm == "attached" || o.Arg == "" {
			if o.Arg == "" {
				continue // its other spellings say them
			}
			before = []string{o.Dashed + "="}
		}
		got := table.Complete(before, knownNames).String()
		for _, word := range words {
			if !strings.Contains(got, strings.TrimPrefix(before[len(before)-1]+word, " ")+"\t") {
				t.Errorf("%s: %q is not offered: %q", o.Dashed, word, got)
			}
			value := word
			if strings.HasSuffix(word, "@") {
				value += "60"
			}
			if strings.HasSuffix(value, ":") || strings.HasSuffix(value, "=") || o.Arg == "SIG JOB" || word == "list" {
				continue // more has to follow
			}
			if _, err := table.decode(o, value); err != nil {
				t.Errorf("%s %s: %v", o.Dashed, value, err)
			}
		}
	}
	if lists < 30 {
		t.Errorf("only %d options have words", lists)
	}
}

// completions are beginnings of lines, each with words that must, or must not, be candidates for its last word.
var completions = []struct{ line, has, not string }{
	{"bin/mpiexec --accept-new-ho", "--accept-new-host-keys", ""},
	{"mpiexec -hostf", "-hostfile", "-host"},
	{"mpiexec --hostf", "--hostfile", "-hostfile"},
	{"mpiexec --", "--fanout", ""},
	{"mpiexec -n 2 -launcher ", "rsh", "-n"},
	{"mpiexec -n 2 -launcher r", "rsh", "ssh"},
	{"mpiexec --exit-status ", "rank0", ""},
	{"mpiexec --bind-to co", "core", "socket"},
	{"mpirun --map-by nu", "numa", "slot"},
	{"mpiexec.remshell --rank-by sp", "span", ""},
	{"mpiexec --map-by=nu", "--map-by=numa", "--map-by=slot"},
	{"mpiexec --map-by pp", "ppr:", ""},
	{"mpiexec --evict 1", "17-a", "last"},
	{"mpiexec -host n", "n2", "localhost"},
	{"mpiexec -host n1,n", "n1,n2", ""},
	{"mpiexec --ps n1 n", "n2", ""},
	{"mpiexec -hostfile mp", "mpihosts", ""},
	{"mpiexec -wdir fol", "folder", ""},
	{"mpiexec -n 2 ./a.out -n", "", "-np"},
	{"mpiexec -n 2 ./a.out mp", "mpihosts", ""},
	{"mpiexec -n 2 -- ./a.out mp", "mpihosts", ""},
	{"mpiexec -n 1 ./a.out -x : -perh", "-perhost", ""},
	{"mpiexec -n 2 rmd", "rmdir", ""},
}

// installTestPrograms links this test under the program's names into a new folder in PATH. It returns the completion
// script of a shell.
func installTestPrograms(t *testing.T, shell string) (script string) {
	t.Helper()
	requireProgram(t, shell)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"mpiexec", "mpirun", "mpiexec.remshell"} {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return CompletionScript(shell)
}

// inFolder creates bin/mpiexec in a folder that is not in PATH, as "make" does.
func inFolder(t *testing.T, dir string) {
	t.Helper()
	self, err := exec.LookPath("mpiexec")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "bin"), 0o755), os.Symlink(self, filepath.Join(dir, "bin/mpiexec"))); err != nil {
		t.Fatal(err)
	}
}

func TestCompletionBash(t *testing.T) {
	script := installTestPrograms(t, "bash") + `
cd "$1"
while IFS= read -r line; do
	COMP_LINE=$line COMP_POINT=${#line}
	read -ra COMP_WORDS <<<"$line"
	[[ $line == *' ' ]] && COMP_WORDS+=("")
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	COMPREPLY=() rest=
	compopt() { [[ $2 == default ]] && rest=1; }
	_mpiexec "${COMP_WORDS[0]}" "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
	[[ $rest ]] && COMPREPLY=($(compgen -f -- "${COMP_WORDS[-1]}"))
	echo "${COMPREPLY[@]}"
done
`
	checkCompletion(t, func(dir, lines string) string {
		out, _ := runCommand(t, lines, "bash", "--norc", "-c", script, "bash", dir)
		return out
	})
	registered, _ := runCommand(t, "", "bash", "--norc", "-c", CompletionScript("bash")+"complete -p mpiexec mpirun aprun mpijob")
	if registered != "complete -F _mpiexec mpiexec\ncomplete -F _mpiexec mpirun\ncomplete -F _mpiexec aprun\ncomplete -F _mpiexec mpijob\n" {
		t.Errorf("bash says %q", registered)
	}
}

// fish completes on demand.
func TestCompletionFish(t *testing.T) {
	script := installTestPrograms(t, "fish")
	file := filepath.Join(t.TempDir(), "mpiexec.fish")
	if err := os.WriteFile(file, []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	ask := `source $argv[1]; cd $argv[2]
while read -l line
    echo (complete -C "$line" | string replace -r '\t.*' '')
end`
	checkCompletion(t, func(dir, lines string) string {
		out, problems := runCommand(t, lines, "fish", "--no-config", "-c", ask, file, dir)
		if problems != "" {
			t.Errorf("fish: %s", problems)
		}
		return out
	})
}

// zsh completes only at a terminal, and creates one itself (zpty). The test replaces the function that receives the
// candidates.
func TestCompletionZsh(t *testing.T) {
	completion := installTestPrograms(t, "zsh")
	home := t.TempDir()
	file := filepath.Join(home, "mpiexec.zsh")
	if err := os.WriteFile(file, []byte(completion), 0o644); err != nil {
		t.Fatal(err)
	}
	script := `zmodload zsh/zpty
zpty z zsh -f -i
read_until() { local text; REPLY=; while zpty -r z text; do REPLY+=$text; [[ $REPLY == *$1* ]] && return; done; exit 3 }
zpty -w z "PROMPT=; unsetopt zle_bracketed_paste auto_list; stty -echo; autoload -U compinit; compinit -u -d $1/dump; source $2; cd $3; TRAPEXIT() { }"
zpty -w z 'compadd() { if [[ ${@[(I)-O*|-A*|-D*]} -gt 0 ]]; then builtin compadd "$@"; return; fi; local -a hits; builtin compadd -O hits "$@"; print -r -- "$hits" >>$OFFERED; builtin compadd "$@" }'
zpty -w z "OFFERED=$1/offered; zstyle ':completion:*' insert-tab false; caught() { : >\$OFFERED; zle complete-word; { cat \$OFFERED | tr '\\n' ' '; echo; } >>$1/all; BUFFER=; print; print ANSWER\\ED }; zle -N caught; bindkey '^I' caught; print REA\\DY"
read_until READY
while IFS= read -r line; do
	zpty -w -n z "$line"$'\t'
	read_until ANSWERED
done
cat $1/all`
	checkCompletion(t, func(dir, lines string) string {
		out, _ := runCommand(t, lines, "zsh", "-f", "-c", script, "zsh", home, file, dir)
		return out
	})
}

// checkCompletion runs a shell that completes all lines, in a folder with a few files. The shell prints the
// candidates of each line.
func checkCompletion(t *testing.T, complete func(dir, lines string) string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"mpihosts", "folder/x", "a.out"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	inFolder(t, dir)
	var lines strings.Builder
	for _, c := range completions {
		lines.WriteString(c.line + "\n")
	}
	answers := strings.Split(strings.TrimSuffix(complete(dir, lines.String()), "\n"), "\n")
	if len(answers) != len(completions) {
		t.Fatalf("%d answers to %d lines: %q", len(answers), len(completions), answers)
	}
	for i, c := range completions {
		offered := " " + strings.ReplaceAll(answers[i], "/", "") + " "
		if c.has != "" && !strings.Contains(offered, " "+c.has+" ") || c.not != "" && strings.Contains(offered, " "+c.not+" ") {
			t.Errorf("%q: offered %q; want %q and not %q", c.line, answers[i], c.has, c.not)
		}
	}
}
