package option

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// requires finds a program that make test installs; a quick check goes on without.
func requires(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err == nil {
		return
	}
	if testing.Short() {
		t.Skipf("%s is not installed", name)
	}
	t.Fatalf("%s is not installed; run testdata/install.sh", name)
}

// runs runs a command with an input, and returns both outputs.
func runs(t *testing.T, input string, argv ...string) (out, err string) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	cmd.Env = append(os.Environ(), "MANWIDTH=80", "LC_ALL=C.UTF-8", "HOME="+t.TempDir(), "TERM=dumb")
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, stderr.String())
	}
	return stdout.String(), stderr.String()
}

// The manual's reference is what the table says.
func TestReference(t *testing.T) {
	const file = "../../doc/options.md"
	if *update {
		if err := os.WriteFile(file, []byte(Mpiexec(signals).Reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil || string(text) != Mpiexec(signals).Reference() {
		t.Errorf("doc/options.md is not what the option table says (%v): go test ./cli/option -run TestReference -update", err)
	}
}

// Every option stands in the man page, which has no mistakes.
func TestMan(t *testing.T) {
	page := Mpiexec(signals).Man("1.2-test")
	table := Mpiexec(signals)
	table.each(func(o *Option, s Spelling) {
		if !strings.Contains(page, `\fB`+roff(s.Dashed)+`\fR`) {
			t.Errorf("the page has no %s", s.Dashed)
		}
	})
	for _, o := range table.options {
		if !strings.Contains(page, roff(capital(o.Help()))) {
			t.Errorf("the page does not say what %s does", o.Dashed)
		}
	}
	requires(t, "man")
	file := filepath.Join(t.TempDir(), "mpiexec.1")
	if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	text, warnings := runs(t, "", "man", "--warnings=w", "-l", file)
	if warnings != "" {
		t.Errorf("man -l: %s", warnings)
	}
	for _, want := range []string{"NAME\n", "mpiexec - start parallel programs", "~/.config/mpiexec/config", "-pernode means -ppn=1.", "HYDRA_HOST_FILE"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page as printed has no %q", want)
		}
	}
}

// Help on a topic lists what the short help leaves out.
func TestHelpOn(t *testing.T) {
	all, err := Mpiexec(signals).HelpOn("all")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range Mpiexec(signals).options {
		if !strings.Contains(all, "  "+o.Dashed) {
			t.Errorf("-help all has no %s", o.Dashed)
		}
	}
	for _, word := range Mpiexec(signals).topicWords() {
		text, err := Mpiexec(signals).HelpOn(word)
		if err != nil || !strings.Contains(all, text) || len(text) < 100 {
			t.Errorf("-help %s: %v, %q", word, err, text)
		}
	}
}

// completions are beginnings of lines, and words that must, or must not, be offered for
// the last of them.
var completions = []struct{ line, has, not string }{
	{"mpiexec -hostf", "-hostfile", "-host"},
	{"mpiexec --hostf", "--hostfile", "-hostfile"},
	{"mpiexec --", "--fanout", ""},
	{"mpiexec -n 2 -launcher ", "rsh", "-n"},
	{"mpiexec -n 2 -launcher r", "rsh", "ssh"},
	{"mpiexec --exit-status ", "rank0", ""},
	{"mpiexec -hostfile mp", "mpihosts", ""},
	{"mpiexec -wdir fol", "folder", ""},
	{"mpiexec -n 2 ./a.out -n", "", "-np"},
	{"mpiexec -n 2 ./a.out mp", "mpihosts", ""},
	{"mpiexec -n 2 -- ./a.out mp", "mpihosts", ""},
	{"mpiexec -n 1 ./a.out -x : -perh", "-perhost", ""},
	{"mpiexec -n 2 rmd", "rmdir", ""},
}

func TestCompletionBash(t *testing.T) {
	requires(t, "bash")
	script := Mpiexec(signals).Completion("bash") + `
cd "$1"
while IFS= read -r line; do
	COMP_LINE=$line COMP_POINT=${#line}
	read -ra COMP_WORDS <<<"$line"
	[[ $line == *' ' ]] && COMP_WORDS+=("")
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	COMPREPLY=() rest=
	compopt() { [[ $2 == default ]] && rest=1; }
	_mpiexec mpiexec "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
	[[ $rest ]] && COMPREPLY=($(compgen -f -- "${COMP_WORDS[-1]}"))
	echo "${COMPREPLY[@]}"
done
`
	checkCompletion(t, func(dir, lines string) string {
		out, _ := runs(t, lines, "bash", "--norc", "-c", script, "bash", dir)
		return out
	})
	registered, _ := runs(t, "", "bash", "--norc", "-c", Mpiexec(signals).Completion("bash")+"complete -p mpiexec")
	if registered != "complete -F _mpiexec mpiexec\n" {
		t.Errorf("bash says %q", registered)
	}
}

// fish completes on demand.
func TestCompletionFish(t *testing.T) {
	requires(t, "fish")
	file := filepath.Join(t.TempDir(), "mpiexec.fish")
	if err := os.WriteFile(file, []byte(Mpiexec(signals).Completion("fish")), 0o644); err != nil {
		t.Fatal(err)
	}
	script := `source $argv[1]; cd $argv[2]
while read -l line
    echo (complete -C "$line" | string replace -r '\t.*' '')
end`
	checkCompletion(t, func(dir, lines string) string {
		out, problems := runs(t, lines, "fish", "--no-config", "-c", script, file, dir)
		if problems != "" {
			t.Errorf("fish: %s", problems)
		}
		return out
	})
}

// zsh completes only for somebody at a terminal: it makes one itself. What it would offer
// is caught where it offers it.
func TestCompletionZsh(t *testing.T) {
	requires(t, "zsh")
	home := t.TempDir()
	file := filepath.Join(home, "mpiexec.zsh")
	if err := os.WriteFile(file, []byte(Mpiexec(signals).Completion("zsh")), 0o644); err != nil {
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
		out, _ := runs(t, lines, "zsh", "-f", "-c", script, "zsh", home, file, dir)
		return out
	})
}

// checkCompletion has a shell complete all lines at once, in a folder with a few files. It
// writes a line for each, with what it offers.
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
