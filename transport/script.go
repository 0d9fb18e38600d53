package transport

import (
	"cmp"
	"crypto/rand"
	_ "embed"
	"path"
	"strconv"
	"strings"
)

//go:embed deliver.sh
var deliverScript string

// deliveryScript is what is sent to /bin/sh for this program. The tag makes the name of the
// temporary file unique over all hosts that share a folder.
func (s HelperBinary) deliveryScript(tag string) string {
	folders := s.nodeDirs
	if folders == nil {
		folders = []string{"/tmp", "/dev/shm"}
	}
	file, parts := s.Path, sharedParts(s.Path)
	if len(parts) == 0 || s.buildLine == 0 {
		file, parts = "", nil
	}
	find := "_rs_find"
	if s.nodePath != "" {
		find = "_rs_told"
	}
	fill := strings.NewReplacer(append(s.attach.fill(),
		"@FIND@", find,
		"@SHIP@", cmp.Or(s.delivery, "auto"),
		"@WHO@", s.stepNames.hostPrefix(),
		"@CALL@", s.dialBackArgs(),
		"@ALONE@", map[bool]string{true: "true", false: "false"}[s.stepNames == nil],
		"@TOLD@", quote(s.nodePath),
		"@BUILD@", s.Build,
		"@SIZE@", strconv.FormatInt(s.Size, 10),
		"@TAG@", tag,
		"@PATH@", quote(file),
		"@PARTS@", quoteAll(parts),
		"@LINE@", strconv.Itoa(s.buildLine),
		"@SAME@", quote(s.fileIdentity),
		"@COUNT@", strconv.Itoa(len(parts)),
		"@SYSTEM@", quoteAll(folders),
		"@MACHINE@", unamePattern(s.targetSystem()),
		"@SPACE@", strconv.Itoa(minAddressSpace),
	)...)
	return fill.Replace(withoutComments(deliverScript))
}

// hostPrefix begins each line that is said, where it would not be known otherwise who says it.
func (s *stepVariables) hostPrefix() string {
	if s == nil {
		return ""
	}
	return "$" + s.host + " "
}

// dialBackArgs is what a helper needs to know, beside the invitation, to call us (package callback): its host, and
// an address that is tried first, if one is known.
func (s HelperBinary) dialBackArgs() string {
	switch {
	case s.dialBack != nil:
		return quote(s.dialBack.host) + " ''"
	case s.stepNames != nil:
		return `"$` + s.stepNames.host + `" "${` + s.stepNames.starterAddress + `-}"`
	}
	return ""
}

// minAddressSpace is how much of it, in KiB, has to be allowed for the helper (RM-57). Go's runtime reserves
// tables for all the memory that there could be, of which it uses next to nothing: 1.2 GB, or less where
// that is not to be had. Tried: with 720 MB it never starts, with 760 MB mostly, with 800 MB always.
const minAddressSpace = 900 << 10

func withoutComments(script string) string {
	var b strings.Builder
	for line := range strings.Lines(script) {
		line = strings.TrimLeft(line, "\t")
		if line != "\n" && !strings.HasPrefix(line, "#") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// sharedParts lists a program and all folders above it, the program last. A path
// that the script could not handle gives none.
func sharedParts(file string) []string {
	if !path.IsAbs(file) || path.Clean(file) != file || strings.ContainsFunc(file, func(r rune) bool { return r < ' ' }) {
		return nil
	}
	var parts []string
	for p := file; ; p = path.Dir(p) {
		parts = append([]string{p}, parts...)
		if p == "/" {
			return parts
		}
	}
}

// quote makes one word of s for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func quoteAll(words []string) string {
	var quoted []string
	for _, w := range words {
		quoted = append(quoted, quote(w))
	}
	return strings.Join(quoted, " ")
}

// newFileTag is a name that nobody else makes.
func newFileTag() string { return "new." + rand.Text() }
