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

// deliveryScript returns the script that /bin/sh on a node runs to find or receive the helper's binary. tag
// makes the name of a temporary file unique among all hosts that share a directory.
func (s HelperBinary) deliveryScript(tag string) string {
	dirs := s.nodeDirs
	if dirs == nil {
		dirs = []string{"/tmp", "/dev/shm"}
	}
	file, parts := s.Path, sharedParts(s.Path)
	if len(parts) == 0 || s.buildLine == 0 {
		file, parts = "", nil
	}
	find := "_rs_find"
	if s.nodePath != "" {
		find = "_rs_told"
	}
	say := `printf '\036remshell %s\n' "` + s.stepNames.hostPrefix() + `$*"`
	if s.silent {
		say = silentSay()
	}
	fill := strings.NewReplacer(append(s.attach.fill(),
		"@SAY@", say,
		"@FIND@", find,
		"@SHIP@", cmp.Or(s.delivery, "auto"),
		"@CALL@", s.dialBackArgs(),
		"@ALONE@", map[bool]string{true: "true", false: "false"}[s.stepNames == nil && !s.silent],
		"@TOLD@", quote(s.nodePath),
		"@BUILD@", s.Build,
		"@SIZE@", strconv.FormatInt(s.Size, 10),
		"@TAG@", tag,
		"@PATH@", quote(file),
		"@PARTS@", quoteAll(parts),
		"@LINE@", strconv.Itoa(s.buildLine),
		"@SAME@", quote(s.fileIdentity),
		"@COUNT@", strconv.Itoa(len(parts)),
		"@SYSTEM@", quoteAll(dirs),
		"@MACHINE@", unamePattern(s.targetSystem()),
		"@SPACE@", strconv.Itoa(minAddressSpace),
	)...)
	return fill.Replace(withoutComments(deliverScript))
}

// hostPrefix returns the text at the start of each line that the delivery script prints. In a batch step, where the
// lines of many hosts are merged, it is the shell variable with the host's name. Otherwise it is empty.
func (s *stepVariables) hostPrefix() string {
	if s == nil {
		return ""
	}
	return "$" + s.host + " "
}

// dialBackArgs returns the helper's arguments for connecting to mpiexec (package dialback). These are the helper's
// host and the address to try first, if an address is known.
func (s HelperBinary) dialBackArgs() string {
	switch {
	case s.silent:
		return s.silentArgs
	case s.dialBack != nil:
		return quote(s.dialBack.host) + " ''"
	case s.stepNames != nil:
		return `"$` + s.stepNames.host + `" "${` + s.stepNames.starterAddress + `-}"`
	}
	return ""
}

// minAddressSpace is the minimum address space, in KiB, with which a helper is started (rule RM-57). Go's runtime
// reserves 1.2 GB of address space for tables, or less if 1.2 GB are not available, and uses little of it. In tests
// the helper never started with 720 MB, often started with 760 MB, and always started with 800 MB.
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

// sharedParts returns all directories on the path of a program, starting with the root, and then the path itself. It
// returns nil for a path that the script cannot handle.
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

// quote returns s in quotes, so that a shell reads s as one word.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func quoteAll(words []string) string {
	var quoted []string
	for _, w := range words {
		quoted = append(quoted, quote(w))
	}
	return strings.Join(quoted, " ")
}

// newFileTag returns a random name for a temporary file, which is unique among all hosts.
func newFileTag() string { return "new." + rand.Text() }
