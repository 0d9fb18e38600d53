//go:build linux

package rank

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"remshell/job"
)

// bare lists all a rank gets of its node's environment with -genvnone (ENV-3).
var bare = []string{"HOME", "USER", "LOGNAME", "SHELL", "PATH", "TMPDIR", "LANG"}

// A variables is an environment under construction: names in order of first
// mention, and their values.
type variables struct {
	names     []string
	values    map[string]string
	suggested []string // assignments of ours that the user has not made
}

func (v *variables) set(assignment string) {
	name, value, ok := strings.Cut(assignment, "=")
	if !ok || name == "" {
		return
	}
	if _, known := v.values[name]; !known {
		v.names = append(v.names, name)
	}
	v.values[name] = value
}

// suggest sets a variable that is not there.
func (v *variables) suggest(name, value string) {
	if _, known := v.values[name]; !known {
		v.names = append(v.names, name)
		v.values[name] = value
		v.suggested = append(v.suggested, name+"="+value)
	}
}

// mostTold is how many bytes of a command line ranks are told in a variable. The kernel takes
// 128 KiB in one, and many times as much in arguments.
const mostTold = 4 << 10

// suggestShort is suggest for what ranks can do without when it is long.
func (v *variables) suggestShort(name, value string) {
	if len(value) <= mostTold {
		v.suggest(name, value)
	}
}

func (v *variables) unset(patterns []string) {
	v.names = slices.DeleteFunc(v.names, func(name string) bool {
		if !job.Matches(patterns, name) {
			return false
		}
		delete(v.values, name)
		return true
	})
}

// roomForIdentity is for how many variables of a rank's own there is room behind those of its
// section.
const roomForIdentity = 24

func (v *variables) list() []string {
	list := make([]string, len(v.names), len(v.names)+roomForIdentity)
	for i, name := range v.names {
		list[i] = name + "=" + v.values[name]
	}
	return list
}

// AppEnv composes the environment that all ranks of an app share: the node's own,
// then what came from the launcher, then what the section says; later ones win
// (cli.md section 8). PWD is where they start.
func AppEnv(own []string, base, app job.Env, dir string) []string {
	v := &variables{values: make(map[string]string, len(own)+len(base.Set))}
	outer, keepOnly := job.OuterOf(own), base.Bare || app.Bare
	for _, assignment := range own {
		name, _, _ := strings.Cut(assignment, "=")
		if outer(assignment) || keepOnly && !slices.Contains(bare, name) {
			continue
		}
		v.set(assignment)
	}
	for _, layer := range []job.Env{base, app} {
		for _, assignment := range layer.Dirs {
			v.set(assignment)
		}
		for _, assignment := range layer.Set {
			v.set(assignment)
		}
		v.unset(layer.Unset)
	}
	v.set("PWD=" + dir)
	return v.list()
}

// WithPath is a node's environment with the default PATH if it has none.
func WithPath(environ []string) []string {
	if _, defined := job.Lookup(environ, "PATH"); defined {
		return environ
	}
	return append(slices.Clip(environ), "PATH="+job.DefaultPath)
}

// Existing leaves out of an environment the directories that this node does not have
// (ENV-5), and tells of each.
func Existing(env job.Env, tell func(text string)) job.Env {
	env.Dirs = slices.DeleteFunc(slices.Clone(env.Dirs), func(assignment string) bool {
		name, dir, _ := strings.Cut(assignment, "=")
		info, err := os.Stat(dir)
		gone := err != nil || !info.IsDir()
		if gone {
			tell(fmt.Sprintf("%s is not passed on: there is no directory %s here", name, dir))
		}
		return gone
	})
	return env
}
