package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"remshell/batch"
)

// mayName lists the files outside of package batch that may name a batch system, and why.
var mayName = map[string]string{
	"cli/option/foreign_options.go": "tells users of srun what its options are here; srun stands for a launcher there, as aprun and mpirun do",
	"cli/option/options.go":         "--cpu-bind and --export are options of srun, which we take over",
	"cli/option/mpijob.go":          "tells users of squeue, scancel and qstat which command of mpijob they want",
	"cli/option/mpi.go":             "reads the words of srun's --mpi and --export, likewise",
	"cli/option/removed.go":         "tells who gives --rm-lsf-rankfile, which is gone, what to use in its place",
	"cli/run.go":                    "tells users of srun that -N counts ranks here",
	"hostlist/line_formats.go":      "a form of host files, which Grid Engine's PE_HOSTFILE has; users give such files everywhere",
}

// No identifier or string outside of package batch names a batch system, so that adding a system is adding a row.
// Comments may name systems. So may the tools and tests of the project, which run real ones.
func TestBatchSystemsAreNamedInTheirRowsOnly(t *testing.T) {
	files, err := sourceFiles(".")
	if err != nil {
		t.Fatal(err)
	}
	if len(names()) < 20 {
		t.Fatalf("only %q are looked for", names())
	}
	unused := make(map[string]bool)
	for file := range mayName {
		unused[file] = true
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		if strings.HasSuffix(file, "_test.go") || dir == "batch" || isTestOnly(dir) {
			continue
		}
		found := named(t, file)
		delete(unused, file)
		if _, may := mayName[file]; may != (found != nil) {
			t.Errorf("%s names %q; who may: %q", file, found, mayName[file])
		}
	}
	for file := range unused {
		t.Errorf("%s may name batch systems, and is not there", file)
	}
}

// A name is found in each spelling that a program may use, and not in other words that contain it.
func TestNamesOfBatchSystemsAreFound(t *testing.T) {
	for _, text := range []string{"slurm", "Slurm", "endOfSlurmJob", "SLURM_JOB_ID", "usePBS", "PBS_JOBID", "srunOffers", "Grid Engine", "isGridEngine", "sge-streams", "qrsh -inherit", "HTCondor", "_CONDOR_PROCNO", "LSB_JOBID", "JOB_ID", "loadLeveler", "pbs_attach", "Torque", "squeue", "scontrol", "qstat", "bjobs"} {
		if namesOne(text) == "" {
			t.Errorf("%q names a batch system", text)
		}
	}
	for _, text := range []string{"othersRun", "influx", "all", "MPIEXEC_JOBID", "strings.ContainsRune", "job id", "a grid", "engine", "ALL"} {
		if name := namesOne(text); name != "" {
			t.Errorf("%q does not name %s", text, name)
		}
	}
}

// named returns the identifiers and strings of a file that name a batch system.
func named(t *testing.T, file string) (found []string) {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		text := ""
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Ident:
			text = n.Name
		case *ast.BasicLit:
			if text = n.Value; n.Kind == token.STRING {
				text, _ = strconv.Unquote(n.Value)
			}
		}
		if namesOne(text) != "" {
			found = append(found, text)
		}
		return true
	})
	return found
}

// namesOne returns the name of a batch system in a text, or "". Case, dashes and blanks separate words.
func namesOne(text string) string {
	if slices.ContainsFunc(batch.Systems, func(s *batch.System) bool { return s.Variable == text }) {
		return text
	}
	words := " " + strings.Join(wordsOf(text), " ") + " "
	for _, name := range names() {
		if strings.Contains(words, " "+name+" ") {
			return name
		}
	}
	return ""
}

// wordsOf splits a text or an identifier into words: "endOfSlurmJob" is end, of, slurm, job.
func wordsOf(text string) (words []string) {
	runes := []rune(text)
	from := 0
	for i, r := range runes {
		letter := unicode.IsLetter(r)
		hump := i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsUpper(runes[i-1]) && unicode.IsLower(runes[i+1]))
		if (!letter || hump) && from < i {
			words = append(words, strings.ToLower(string(runes[from:i])))
		}
		switch {
		case !letter:
			from = i + 1
		case hump:
			from = i
		}
	}
	if from < len(runes) {
		words = append(words, strings.ToLower(string(runes[from:])))
	}
	return words
}

// names returns, in lower-case words, the names of batch systems and their programs, and the prefixes of their
// variables.
var names = func() func() []string {
	var all []string
	add := func(texts ...string) {
		for _, text := range texts {
			if words := strings.Join(wordsOf(text), " "); words != "" && !slices.Contains(all, words) {
				all = append(all, words)
			}
		}
	}
	for _, s := range batch.Systems {
		title := strings.ToLower(s.Title) // the title of LoadLeveler is also written as one word
		add(s.Name, s.Title, title, strings.ReplaceAll(title, " ", ""))
		if prefix, _, _ := strings.Cut(strings.TrimPrefix(s.Variable, "_"), "_"); prefix != "JOB" { // the prefix of Grid Engine's JOB_ID names no system
			add(prefix)
		}
		add(s.NoInput...)
		if s.Starter != nil {
			add(s.Starter.Program)
		}
		if s.Attach != nil {
			add(s.Attach.Program)
		}
		add(s.Products...)
		add(queriedPrograms(s)...)
	}
	return func() []string { return all }
}()

// queriedPrograms returns the programs that a row asks for the state and the end of a job.
func queriedPrograms(s *batch.System) (programs []string) {
	run := func(name string, _ ...string) (string, error) {
		programs = append(programs, name)
		return "", errors.New("no answer")
	}
	if s.State != nil {
		s.State(run, "7")
	}
	if s.End != nil {
		s.End(run, "7")
	}
	if s.KillWait != nil {
		s.KillWait(run)
	}
	return programs
}

// Each batch system that lists hosts is in the table of the guide. Each has a row in the specification, in the order of
// batch.Systems, and there each word of -launcher is explained.
func TestEverySystemIsDocumented(t *testing.T) {
	_, rest, _ := strings.Cut(readText(t, "doc/guide/batch.md"), "\n| batch system | starter |")
	table, _, _ := strings.Cut(rest, "\n\n")
	page := readText(t, "doc/spec/rm-integration.md")
	_, starters, _ := strings.Cut(page, "\n## 3. Starters\n")
	for i, s := range batch.Systems {
		if s.Name != "alps" && !strings.Contains(table, s.Title+" |") && !strings.Contains(table, s.Title+", ") {
			t.Errorf("doc/guide/batch.md does not name %s in its table of batch systems", s.Title)
		}
		if row := fmt.Sprintf("| %d | %s |", i+1, s.Name); !strings.Contains(page, "\n"+row) {
			t.Errorf("doc/spec/rm-integration.md has no row %q in the table of RM-1", row)
		}
		for _, word := range s.LauncherWords() {
			if !strings.Contains(starters, "`"+word+"`") && !strings.Contains(starters, "`-launcher "+word+"`") {
				t.Errorf("doc/spec/rm-integration.md does not explain -launcher %s in its section on starters", word)
			}
		}
	}
}
