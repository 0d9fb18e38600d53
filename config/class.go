package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"remshell/limit"
	"remshell/plan/nodeset"
	"remshell/sort"
)

// A Class is a kind of jobs that --class names: who may have it, and what holds for its jobs (RM-55).
type Class struct {
	name   string
	Limits limit.Bounds  // the longest time, maxtime, is among them
	Sort   string        // PSINodesSort of its jobs; empty: the cluster's
	Users  []int         // who may have it; nil: anybody, empty: root alone
	Groups []int         // the same for groups
	Sets   nodeset.Level // of its jobs
}

// Name is its name; empty: there is no such class.
func (c Class) Name() string { return c.name }

// Open reports whether a user may have the class: root always, others that are in both lists.
func (c Class) Open(uid int, groups []int) bool {
	in := func(g int) bool { return slices.Contains(groups, g) }
	return uid == 0 || (c.Users == nil || slices.Contains(c.Users, uid)) && (c.Groups == nil || slices.ContainsFunc(c.Groups, in))
}

var classKeys = []string{"name", "limits", "sort", "maxtime", "users", "groups", "nodeset"}

// classSets is what a class says of node sets, until all attributes are known.
type classSets struct {
	name, table, key string
	line             int
	value            any
}

/*
classes reads the classes. They may be written in two ways, and are one thing: who adds what a class
decides adds a key to Class and to classKey, and both ways have it.

	[class.long]           [[class]]
	maxtime = "10h"        name = "long"
	                       maxtime = "10h"
*/
func (r *reader) classes(value any) {
	r.cluster.Classes = make(map[string]Class)
	switch value := value.(type) {
	case nil:
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			r.class(name, "class."+name, value[name])
		}
	case []any:
		for i, entry := range value {
			table := fmt.Sprintf("class[%d]", i)
			name := r.className(table, entry)
			if _, twice := r.cluster.Classes[name]; twice {
				r.fault(r.lines.in(table, "name"), "the class %s is there twice", name)
			}
			r.class(name, table, entry)
		}
	default:
		r.fault(r.lines.global["class"], "class: %s is no table; write [class.NAME], with its keys in the lines below", shown(value))
	}
}

// className is what an entry of [[class]] calls itself.
func (r *reader) className(table string, entry any) string {
	keys, _ := entry.(map[string]any)
	for key, value := range keys {
		if name, is := value.(string); strings.EqualFold(key, "name") && is && name != "" {
			return name
		}
	}
	r.fault(r.lines.in(table, "name"), "a class needs a name")
	return ""
}

// class reads one class, whose lines are those of a table.
func (r *reader) class(name, table string, entry any) {
	keys, ok := entry.(map[string]any)
	if !ok {
		r.fault(r.lines.in("class", name), "class %s: %s is no table; write [class.%s], with its keys in the lines below", name, shown(entry), name)
		return
	}
	c := Class{name: name, Limits: make(limit.Bounds)}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		r.classKey(&c, table, key, keys[key])
	}
	r.cluster.Classes[name] = c
}

// classKey reads what one key says of a class.
func (r *reader) classKey(c *Class, table, key string, value any) {
	line := r.lines.in(table, key)
	switch strings.ToLower(key) {
	case "name":
	case "limits":
		limits, ok := value.(map[string]any)
		if !ok {
			r.fault(line, "limits: %s is no table; write { mem = \"2gb\" }", shown(value))
		}
		c.Limits = limit.Strictest(c.Limits, r.limits(table+".limits", limits))
	case "maxtime":
		c.Limits = limit.Strictest(c.Limits, r.maxTime(line, value))
	case "sort":
		word, _ := value.(string)
		if c.Sort = strings.TrimSpace(word); !sorts(c.Sort) {
			r.fault(line, "sort: %s is no order; allowed: %s", shown(value), strings.Join(sort.Words(false), ", "))
		}
	case "users", "groups":
		if c.name == "default" {
			r.fault(line, "%s: the class default holds for all jobs without a class; who may run any says %s of [[node]]", key, key)
			return
		}
		r.classMembers(c, key, line, value)
	case "nodeset", "default":
		if c.name == "default" {
			r.fault(line, "%s: the class default is for the limits of jobs without a class; their node sets are those of [nodeset]", key)
			return
		}
		r.saidSets(c.name, table, key, line, value)
	default:
		r.fault(line, "unknown key %q in a class; there are: %s", key, strings.Join(classKeys, ", "))
	}
}

// classMembers reads who may have a class.
func (r *reader) classMembers(c *Class, key string, line int, value any) {
	if key == "users" {
		c.Users = r.members(line, key, value, r.ids.User)
		return
	}
	c.Groups = r.members(line, key, value, r.ids.Group)
}

// maxTime reads the longest time that a job of a class may take: one more way to say walltime.
func (r *reader) maxTime(line int, value any) limit.Bounds {
	most, err := limit.Value(limit.WallTime, fmt.Sprint(value))
	if err != nil {
		r.fault(line, "maxtime: %s is not a time, as 90, \"30m\" or \"1:30:00\"", shown(value))
		return nil
	}
	return limit.Bounds{limit.WallTime: most}
}

func sorts(word string) bool {
	_, err := sort.Parse(word, false)
	return err == nil
}

// saidSets notes what a class says of node sets, under our key or, DEFAULT.NODESET, that of the scheduler.
func (r *reader) saidSets(class, table, key string, line int, value any) {
	if strings.EqualFold(key, "nodeset") {
		r.classSaid = append(r.classSaid, classSets{class, table, key, line, value})
		return
	}
	keys, _ := value.(map[string]any)
	for sub, value := range keys {
		line = r.lines.in(table, key+"."+sub)
		if strings.EqualFold(sub, "nodeset") && len(keys) == 1 {
			r.classSaid = append(r.classSaid, classSets{class, table, key + "." + sub, line, value})
			return
		}
	}
	r.fault(line, "%s: write %s.NODESET = \"ONEOF:...\"", key, key)
}
