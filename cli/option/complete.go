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
A shell asks us what may stand where the cursor is. The scripts that it has of us only pass the words on, and offer what we answer:

	mpiexec --__complete WORD...       the words up to the cursor; the last one is not complete, and may be empty

	KIND FROM                          first line of the answer
	WORD<tab>HELP                      each line behind it: a whole word that may stand in the place of the last one

An option, and no word, asks: a foreign mpirun refuses it, and does not try to start it.
*/

// CompletionOption is the option by which a shell asks.
const CompletionOption = "--__complete"

// A Completion is what may stand at the end of a line.
type Completion struct {
	Kind       CompletionKind
	Start      int         // Files, Folders: where in the last word the name begins; Arguments: which word is the program
	Candidates [][2]string // words, and what they mean
}

// A CompletionKind says what the shell itself has to offer.
type CompletionKind string

const (
	CompleteWords     CompletionKind = "words"     // nothing
	CompleteFiles     CompletionKind = "files"     // files
	CompleteFolders   CompletionKind = "folders"   // folders
	CompleteProgram   CompletionKind = "program"   // commands, files that can be executed
	CompleteArguments CompletionKind = "arguments" // what the program at From takes
)

// CompletionLists are what only this machine knows.
type CompletionLists struct{ Hosts, Jobs func() []string }

// The scripts, which need the names of this program.
var (
	//go:embed texts/completion.bash
	bashScript string
	//go:embed texts/completion.zsh
	zshScript string
	//go:embed texts/completion.fish
	fishScript string
)

// CompletionScript is what makes a shell complete our command lines.
func (t *Table) CompletionScript(shell string) string {
	return map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[shell]
}

// String is the answer to a shell.
func (c Completion) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d\n", c.Kind, c.Start)
	for _, o := range c.Candidates {
		fmt.Fprintf(&b, "%s\t%s\n", o[0], o[1])
	}
	return b.String()
}

// Complete says what may stand in the place of the last of some words, which are those of a command line up to the cursor.
func (t *Table) Complete(words []string, lists CompletionLists) Completion {
	last := len(words) - 1
	hosts, doctor, named := false, false, false // words that are no options are hosts: always, or if no option names some or is of a job
	for i := 0; i < last; i++ {
		name, _, attached := strings.Cut(words[i], "=")
		m, known := t.lookUp(name)
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
			hosts, doctor, named = hosts || m.query == "hosts" || m.Name == "evict", doctor || m.Name == "doctor", named || m.rivalGroup == "hosts" || m.concernsRun()
			for range m.countValueWords(attached, words[i+1:]) {
				if i++; i == last {
					return m.completeValue("", words[last], !strings.HasPrefix(words[i-1], "-"), lists)
				}
			}
		}
	}
	word := words[last]
	name, _, attached := strings.Cut(word, "=")
	switch m, known := t.lookUp(name); {
	case attached && known && !m.Preset && m.Arg != "":
		return m.completeValue(name+"=", word[len(name)+1:], false, lists)
	case strings.HasPrefix(word, "-"):
		return Completion{Kind: CompleteWords, Candidates: t.optionsWithPrefix(word)}
	case hosts || doctor && !named:
		return Completion{Kind: CompleteWords, Candidates: wordsWithPrefix("", word, lists.Hosts())}
	}
	return Completion{Kind: CompleteProgram}
}

// indexColon finds the lone colon that ends the words of a program, or the end.
func indexColon(words []string, from int) int {
	if i := slices.Index(words[from:], ":"); i >= 0 {
		return from + i
	}
	return len(words)
}

// countValueWords is how many of the next words belong to an option.
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

// optionsWithPrefix lists the options that begin so, with the dashes that were typed, or, where there are only dashes, as we write them.
func (t *Table) optionsWithPrefix(word string) (offers [][2]string) {
	begin := strings.TrimLeft(word, "-")
	dashes := word[:len(word)-len(begin)]
	for _, o := range t.options {
		if begin == "" {
			if strings.HasPrefix(o.Dashed, dashes) {
				offers = append(offers, [2]string{o.Dashed, o.Help()})
			}
			continue
		}
		for _, s := range append([]Spelling{{Dashed: o.Dashed}}, o.OtherSpellings...) {
			name := strings.TrimLeft(s.Dashed, "-")
			if strings.HasPrefix(name, begin) {
				offers = append(offers, [2]string{dashes + name, o.Help()})
			}
			if m, is := t.lookup(normalize("g" + name)); len(begin) > 1 && strings.HasPrefix("g"+name, begin) && is && m.global {
				offers = append(offers, [2]string{dashes + "g" + name, o.Help()})
			}
		}
	}
	return offers
}

// completeValue is what the value of an option may be; before stands in front of it in the same word, and second is the value's second word.
func (m namedOption) completeValue(before, typed string, second bool, lists CompletionLists) Completion {
	words := m.choices()
	if m.Form != "" {
		words = nil
	}
	switch {
	case m.Arg == "JOB" || m.Arg == "SIG JOB" && second:
		words = append(lists.Jobs(), words...)
	case m.Name == "help":
		words = append(m.table.topicWords(), "all")
		for _, o := range m.table.options {
			words = append(words, o.Dashed)
		}
	case m.takesHosts():
		words = append(lists.Hosts(), words...)
	case strings.HasPrefix(m.Arg, "FILE"):
		return Completion{Kind: CompleteFiles, Start: len(before)}
	case strings.HasPrefix(m.Arg, "DIR"):
		return Completion{Kind: CompleteFolders, Start: len(before)}
	}
	return Completion{Kind: CompleteWords, Candidates: wordsWithPrefix(before, typed, words)}
}

// wordsWithPrefix are the words that begin as what was typed, behind its last comma if words stand in front of that.
func wordsWithPrefix(before, typed string, words []string) (offers [][2]string) {
	used := strings.Split(typed, ",")
	used, begin := used[:len(used)-1], used[len(used)-1]
	for _, word := range used {
		before += word + ","
	}
	for _, word := range words {
		if len(word) >= len(begin) && strings.EqualFold(word[:len(begin)], begin) && !slices.Contains(used, word) {
			offers = append(offers, [2]string{before + word, ""})
		}
	}
	return offers
}

// takesHosts reports whether the value of an option is a list of hosts.
func (o *Option) takesHosts() bool {
	return slices.Contains([]reflect.Type{reflect.TypeFor[[]HostExpr](), reflect.TypeFor[HostNames](), reflect.TypeFor[SpawnHosts]()}, o.field.Type)
}

// choices are the words that the value of an option may be, or begin with. A type that has some says so by a method; "ppr:N:OBJECT" is
// what a person reads, of whose value "ppr:" is known.
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
