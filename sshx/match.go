package sshx

import (
	"slices"
	"strings"
)

// A scope collects what applies to one host: the first value of each keyword,
// in the order of the files (ssh_config(5)).
type scope struct {
	alias string // as given on the command line, without user
	me    User
	user  string // user given with the alias; empty: none

	final     bool // second pass, in which Match final applies
	wantFinal bool // a Match final was met

	first map[string]setting   // lower-case keyword -> setting
	lists map[string][]setting // the same, for keywords that add up
}

// adds names the keywords whose values add up instead of the first one winning.
func adds(keyword string) bool {
	return keyword == "identityfile" || keyword == "certificatefile"
}

// evaluate walks through all files once, and once more if they want a final
// pass (readconf.c: Match final).
func (c *Config) evaluate(alias, user string, me User) (*scope, error) {
	s := &scope{alias: alias, user: user, me: me, first: map[string]setting{}, lists: map[string][]setting{}}
	for range 2 {
		for _, f := range c.files {
			if err := s.walk(f); err != nil {
				return nil, err
			}
		}
		if !s.wantFinal {
			break
		}
		s.final = true
	}
	return s, nil
}

func (s *scope) walk(f *configFile) error {
	for i := range f.blocks {
		b := &f.blocks[i]
		active, err := s.active(b)
		if err != nil {
			return err
		}
		if !active {
			continue
		}
		for _, set := range b.settings {
			if set.include == nil {
				s.take(set)
				continue
			}
			for _, f := range set.include {
				if err := s.walk(f); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s *scope) take(set setting) {
	key := strings.ToLower(set.keyword)
	if adds(key) {
		same := func(o setting) bool { return o.text == set.text }
		if !slices.ContainsFunc(s.lists[key], same) {
			s.lists[key] = append(s.lists[key], set)
		}
		return
	}
	// Jump host and proxy command shut each other out: the first one counts.
	switch jump := s.word("proxyjump"); {
	case key == "proxycommand" && jump != "" && !strings.EqualFold(jump, "none"):
		return
	case key == "proxyjump":
		if _, proxy := s.first["proxycommand"]; proxy {
			return
		}
	}
	if _, ok := s.first[key]; !ok {
		s.first[key] = set
	}
}

// word is the first word of a keyword's value; empty if it is not set.
func (s *scope) word(key string) string {
	args, _ := splitArgs(s.first[key].text)
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// hostname is the name as far as it is known while the files are read.
func (s *scope) hostname() string {
	if name := s.word("hostname"); name != "" {
		return strings.NewReplacer("%%", "%", "%h", s.alias).Replace(name)
	}
	return s.alias
}

func (s *scope) username() string {
	if s.user != "" {
		return s.user
	}
	if name := s.word("user"); name != "" {
		return name
	}
	return s.me.Name
}

func (s *scope) active(b *configBlock) (bool, error) {
	switch {
	case b.always:
		return true, nil
	case b.criteria == nil:
		host := s.alias
		if s.final { // the second pass sees the name found by the first
			host = s.hostname()
		}
		return matchPatterns(b.hosts, host), nil
	}
	return s.matches(b)
}

// matches takes the criteria of a Match line from left to right and stops at
// the first one that does not hold, so that what we cannot do matters only for
// hosts it would decide about.
func (s *scope) matches(b *configBlock) (bool, error) {
	for i := 0; i < len(b.criteria); i++ {
		word, arg, joined := strings.Cut(b.criteria[i], "=")
		name, negated := strings.CutPrefix(strings.ToLower(word), "!")
		if !joined && takesValue(name) {
			i++
			if i == len(b.criteria) {
				return false, b.fail("Match %s: value missing", name)
			}
			arg = b.criteria[i]
		}
		holds, err := s.criterion(b, name, arg)
		if err != nil {
			return false, err
		}
		if holds == negated {
			return false, nil
		}
	}
	return true, nil
}

func takesValue(criterion string) bool {
	return criterion != "all" && criterion != "canonical" && criterion != "final"
}

func (s *scope) criterion(b *configBlock, name, arg string) (bool, error) {
	list := strings.Split(arg, ",")
	switch name {
	case "all":
		return true, nil
	case "canonical": // needs CanonicalizeHostname, which Resolve refuses
		return s.final, nil
	case "final":
		s.wantFinal = true
		return s.final, nil
	case "host":
		return matchPatterns(list, strings.ToLower(s.hostname())), nil
	case "originalhost":
		return matchPatterns(list, strings.ToLower(s.alias)), nil
	case "user":
		return matchPatterns(list, s.username()), nil
	case "localuser":
		return matchPatterns(list, s.me.Name), nil
	case "tagged":
		return matchPatterns(list, s.word("tag")), nil
	case "exec", "localnetwork", "command", "sessiontype", "version":
		err := b.fail("Match %s is not supported by the built-in client", name)
		err.unsupported = true
		return false, err
	}
	return false, b.fail("unknown criterion %q; known: all final host originalhost user localuser tagged", name)
}

func (b *configBlock) fail(format string, args ...any) *ConfigError {
	return setting{file: b.file, line: b.line}.fail(format, args...)
}
