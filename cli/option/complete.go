package option

import (
	_ "embed"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

/*
A shell runs mpiexec to complete a word. Our completion scripts only pass the words on, and offer the candidates
that are printed:

	mpiexec --__complete WORD...       the words up to the cursor; the last one is not complete, and may be empty

	KIND START                         first line of the output
	WORD<tab>HELP                      each further line: a whole word that may replace the last one

--__complete is an option, not a word: another mpirun refuses it and does not start a program of that name.
*/

// CompletionOption is the option with which shell completion scripts call mpiexec.
const CompletionOption = "--__complete"

// A Completion contains the candidates that may replace the last word of a command line.
type Completion struct {
	Kind       CompletionKind
	Start      int         // CompleteFiles, CompleteFolders: offset in the last word at which the name begins; CompleteArguments: index of the program
	Candidates [][2]string // words, each with its help
}

// A CompletionKind says which candidates the shell has to add to those of mpiexec, such as names of files.
type CompletionKind string

const (
	CompleteWords     CompletionKind = "words"     // none
	CompleteFiles     CompletionKind = "files"     // files
	CompleteFolders   CompletionKind = "folders"   // folders
	CompleteProgram   CompletionKind = "program"   // commands and executable files
	CompleteArguments CompletionKind = "arguments" // those of the program at Start
)

// CompletionLists contains functions that return the hosts and the jobs that this machine knows.
type CompletionLists struct{ Hosts, Jobs func() []string }

// These are the completion scripts of the shells.
var (
	//go:embed texts/completion.bash
	bashScript string
	//go:embed texts/completion.zsh
	zshScript string
	//go:embed texts/completion.fish
	fishScript string
)

// CompletionScript returns the completion script for a shell, or "" for an unknown shell.
func CompletionScript(shell string) string {
	return map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[shell]
}

// String returns the completion in the form that the shells' completion scripts expect.
func (c Completion) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d\n", c.Kind, c.Start)
	for _, o := range c.Candidates {
		fmt.Fprintf(&b, "%s\t%s\n", o[0], o[1])
	}
	return b.String()
}

// Complete returns the candidates that may replace the last element of words. words is a command line up to the cursor.
func (t *Table) Complete(words []string, lists CompletionLists) Completion {
	last := len(words) - 1
	hosts, doctor, named := false, false, false // hosts: words that are no options are hosts; doctor: they are, unless named (an option names hosts or is about a program)
	for i := 0; i < last; i++ {
		name, _, attached := strings.Cut(words[i], "=")
		m, known := t.findSpelling(name)
		switch {
		case words[i] == ":":
			hosts, doctor, named = false, false, false
		case words[i] == "--" && i+1 == last:
			return Completion{Kind: CompleteProgram}
		case words[i] == "--" || !strings.HasPrefix(words[i], "-") && !hosts && (!doctor || named || strings.Contains(words[i], "/")):
			program := i
			if words[i] == "--" {
				program++
			}
			if i = indexColon(words, program); i >= last {
				return Completion{Kind: CompleteArguments, Start: program}
			}
		case known:
			hosts, doctor, named = hosts || m.query == "hosts", doctor || m.Name == "doctor", named || m.rivalGroup == "hosts" || m.concernsRun()
			for range m.countValueWords(attached, words[i+1:]) {
				if i++; i == last {
					return m.completeValue("", words[last], !strings.HasPrefix(words[i-1], "-"), lists)
				}
			}
		}
	}
	word := words[last]
	name, _, attached := strings.Cut(word, "=")
	switch m, known := t.findSpelling(name); {
	case attached && known && !m.Preset && m.Arg != "":
		return m.completeValue(name+"=", word[len(name)+1:], false, lists)
	case strings.HasPrefix(word, "-"):
		return Completion{Kind: CompleteWords, Candidates: t.optionsWithPrefix(word)}
	case hosts || doctor && !named:
		return Completion{Kind: CompleteWords, Candidates: wordsWithPrefix("", word, lists.Hosts())}
	}
	return Completion{Kind: CompleteProgram}
}

// indexColon returns the index of the first word ":" at or after index start. It returns len(words) if there
// is none.
func indexColon(words []string, start int) int {
	if i := slices.Index(words[start:], ":"); i >= 0 {
		return start + i
	}
	return len(words)
}

// countValueWords returns how many of the words in next belong to the option as its values. attached is true
// if the option already has a value in the same word.
func (m namedOption) countValueWords(attached bool, next []string) int {
	switch {
	case m.Name == "help" && !attached:
		return 1
	case attached, m.Preset, m.Arg == "", m.valueForm == "attached":
		return 0
	case m.valueForm == "pair" && (len(next) == 0 || !strings.Contains(next[0], "=")):
		return 2
	}
	return 1
}

// optionsWithPrefix returns the options that begin with word, with as many dashes as the user has typed. If
// word has only dashes, it returns each option's main spelling.
func (t *Table) optionsWithPrefix(word string) (candidates [][2]string) {
	begin := strings.TrimLeft(word, "-")
	dashes := word[:len(word)-len(begin)]
	for _, o := range t.options {
		if begin == "" {
			if strings.HasPrefix(o.Dashed, dashes) {
				candidates = append(candidates, [2]string{o.Dashed, o.Help()})
			}
			continue
		}
		for _, s := range append([]Spelling{{Dashed: o.Dashed}}, o.OtherSpellings...) {
			name := strings.TrimLeft(s.Dashed, "-")
			if strings.HasPrefix(name, begin) {
				candidates = append(candidates, [2]string{dashes + name, o.Help()})
			}
			if m, is := t.findName(normalize("g" + name)); len(begin) > 1 && strings.HasPrefix("g"+name, begin) && is && m.global {
				candidates = append(candidates, [2]string{dashes + "g" + name, o.Help()})
			}
		}
	}
	return candidates
}

// completeValue returns the candidates for an option's value. typed is the part of the value that the user
// has typed. prefix is the text before the value in the same word. isSecond is true if the value has two
// words and this is the second.
func (m namedOption) completeValue(prefix, typed string, isSecond bool, lists CompletionLists) Completion {
	words := m.choices()
	if m.Form != "" {
		words = nil
	}
	switch {
	case m.Arg == "JOB" || m.Arg == "SIG JOB" && isSecond:
		words = append(lists.Jobs(), words...)
	case m.Name == "help":
		words = append(m.table.topicWords(), "all")
		for _, o := range m.table.options {
			words = append(words, o.Dashed)
		}
	case m.takesHosts():
		words = append(lists.Hosts(), words...)
	case strings.HasPrefix(m.Arg, "FILE"):
		return Completion{Kind: CompleteFiles, Start: len(prefix)}
	case strings.HasPrefix(m.Arg, "DIR"):
		return Completion{Kind: CompleteFolders, Start: len(prefix)}
	}
	return Completion{Kind: CompleteWords, Candidates: wordsWithPrefix(prefix, typed, words)}
}

// wordsWithPrefix returns the words that begin with the last item of typed, a comma-separated list. It leaves out words
// that the list already contains. prefix is the text before the list in the same word.
func wordsWithPrefix(prefix, typed string, words []string) (candidates [][2]string) {
	used := strings.Split(typed, ",")
	used, begin := used[:len(used)-1], used[len(used)-1]
	for _, word := range used {
		prefix += word + ","
	}
	for _, word := range words {
		if len(word) >= len(begin) && strings.EqualFold(word[:len(begin)], begin) && !slices.Contains(used, word) {
			candidates = append(candidates, [2]string{prefix + word, ""})
		}
	}
	return candidates
}

// takesHosts reports whether the value of an option is a list of hosts.
func (o *Option) takesHosts() bool {
	return slices.Contains([]reflect.Type{reflect.TypeFor[[]HostExpr](), reflect.TypeFor[HostNames](), reflect.TypeFor[SpawnHosts]()}, o.field.Type)
}

// choices returns the values that the option allows, or the beginnings of such values. Most types of values list them
// in a method Choices. For a choice such as "ppr:N:OBJECT" it returns the part before the first capital, "ppr:".
func (o *Option) choices() (words []string) {
	if o.Words != nil {
		return o.Words
	}
	of := o.field.Type
	if o.accumulates || of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	c, has := reflect.Zero(of).Interface().(interface{ Choices() []string })
	if !has {
		return nil
	}
	for _, word := range c.Choices() {
		if i := strings.IndexFunc(word, unicode.IsUpper); i > 0 {
			word = word[:i]
		}
		words = append(words, word)
	}
	return words
}
