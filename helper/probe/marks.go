//go:build linux

package probe

import (
	"os"
	"path/filepath"
	"strings"
)

/*
Whether two names are one machine is shown, not said (TRUST-6). One helper lays a word open
that only mpiexec and it know, as the name of an empty file, and the other one has to find it:

	n1: /dev/shm/remshell-TAG-WORD1      n2 says WORD1 and WORD2: so it sees what n1 sees
	n2: /dev/shm/remshell-TAG-WORD2      n1 says them, too

What is in the directory of shared memory, only processes see whose ranks can share memory.
*/
type Marks []string // files

const marksDir = "/dev/shm"

func markName(tag, word string) string {
	return filepath.Join(marksDir, "remshell-"+tag+"-"+word)
}

// Lay lays a word open for as long as the session lasts. What it returns is why it could not.
func (m *Marks) Lay(tag, word string) string {
	if !isMark(tag) || !isMark(word) {
		return "no word"
	}
	name := markName(tag, word)
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err.Error()
	}
	file.Close()
	*m = append(*m, name)
	return ""
}

// SeekMarks lists the words under a tag, at most so many.
func SeekMarks(tag string, most int) (words []string) {
	if !isMark(tag) {
		return nil
	}
	names, _ := filepath.Glob(markName(tag, "*"))
	for _, name := range names {
		if word := strings.TrimPrefix(name, markName(tag, "")); isMark(word) && len(words) < most {
			words = append(words, word)
		}
	}
	return words
}

// isMark reports whether a word can be a part of a name of a mark.
func isMark(word string) bool {
	return word != "" && len(word) <= 64 && strings.Trim(word, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// Remove takes all words away.
func (m *Marks) Remove() {
	for _, name := range *m {
		os.Remove(name)
	}
	*m = nil
}
