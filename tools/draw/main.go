/*
Draw draws a random sample of what this repository says to people, so that a reader who does not know the repository can
rate each text as clear, odd or unclear:

	go run ./tools/draw -seed 7 -comments 40 -messages 40 -passages 10

A comment is the doc comment of a package or of a declaration outside of tests, with the first line of the declaration.
A message is a text that mpiexec prints, or an entry of its help. It includes the text that always comes before it.
{name} stands for a value that is inserted, and "..." for other text at the beginning of the line. A passage is a
paragraph, or a list, of at least three sentences in README.md or doc/. The titles of its page and section are in
brackets above it.

The same seed draws the same sample from the same sources. With -all comments, messages or passages, draw prints all
texts of that kind.
*/
package main

import (
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
)

// A sample is one text that can be drawn.
type sample struct {
	place string // file and line
	text  string
}

func main() {
	seed := flag.Uint64("seed", 1, "the same seed draws the same sample")
	root := flag.String("root", ".", "top folder of the repository")
	all := flag.String("all", "", "print all comments, messages or passages, instead of a sample")
	kinds := []struct {
		name    string
		count   *int
		collect func(fs.FS) ([]sample, error)
	}{
		{"comments", flag.Int("comments", 40, "number of comments"), collectComments},
		{"messages", flag.Int("messages", 40, "number of messages"), collectMessages},
		{"passages", flag.Int("passages", 10, "number of passages"), collectPassages},
	}
	flag.Parse()
	printed := false
	for _, kind := range kinds {
		if *all != "" && *all != kind.name {
			continue
		}
		found, err := kind.collect(os.DirFS(*root))
		if err != nil {
			fmt.Fprintln(os.Stderr, "draw:", err)
			os.Exit(1)
		}
		drawn := found
		if *all == "" {
			drawn = draw(found, *seed, *kind.count)
		}
		write(os.Stdout, fmt.Sprintf("%s: %d of %d", kind.name, len(drawn), len(found)), drawn)
		printed = true
	}
	if !printed {
		fmt.Fprintf(os.Stderr, "draw: -all %s: write comments, messages or passages\n", *all)
		os.Exit(2)
	}
}

// draw returns n different samples in random order, or all samples if there are at most n.
func draw(samples []sample, seed uint64, n int) []sample {
	drawn := make([]sample, 0, n)
	for _, i := range rand.New(rand.NewPCG(seed, 0)).Perm(len(samples)) {
		if len(drawn) == n {
			break
		}
		drawn = append(drawn, samples[i])
	}
	return drawn
}

// write prints a heading, and below it the samples, each with its number.
func write(w io.Writer, heading string, samples []sample) {
	fmt.Fprintf(w, "%s\n\n", strings.ToUpper(heading[:1])+heading[1:])
	for i, s := range samples {
		fmt.Fprintf(w, "%d. (%s)\n    %s\n\n", i+1, s.place, strings.ReplaceAll(s.text, "\n", "\n    "))
	}
}
