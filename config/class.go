package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"remshell/limits"
	"remshell/plan/nodeset"
	"remshell/sort"
)

// A Class is a class of jobs, which --class selects. It says which users may use the class, and contains the settings
// of the class's jobs (rule RM-55).
type Class struct {
	name            string
	Limits          limits.Map    // includes maxtime as walltime
	Sort            string        // PSINodesSort of its jobs; empty: the cluster's
	Users           []int         // users who may use it; nil: all, empty: only root
	Groups          []int         // groups that may use it; nil: all, empty: only root
	NodeSetDefaults nodeset.Level // node-set request of its jobs
}

// Name returns the name of the class. It returns "" for the zero Class, which stands for no class.
func (c Class) Name() string { return c.name }

// Admits reports whether a user may use the class. Root always may. Any other user must be in both lists of the class,
// users and groups. A nil list contains everybody.
func (c Class) Admits(uid int, groups []int) bool {
	in := func(g int) bool { return slices.Contains(groups, g) }
	return uid == 0 || (c.Users == nil || slices.Contains(c.Users, uid)) && (c.Groups == nil || slices.ContainsFunc(c.Groups, in))
}

var classKeys = []string{"name", "limits", "sort", "maxtime", "users", "groups", "nodeset"}

// pendingClassSets holds the node-set setting of a class until it can be parsed. It can be parsed when all attributes
// of nodes are known.
type pendingClassSets struct {
	name, table, key string
	line             int
	value            any
}

/*
readClasses reads the classes of jobs, which can be written in two notations. A new setting needs a field of Class
and a case in readClassKey. It can then be used in both notations.

	[class.long]           [[class]]
	maxtime = "10h"        name = "long"
	                       maxtime = "10h"
*/
func (r *reader) readClasses(value any) {
	r.cluster.Classes = make(map[string]Class)
	switch value := value.(type) {
	case nil:
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			r.readClass(name, "class."+name, value[name])
		}
	case []any:
		for i, entry := range value {
			table := fmt.Sprintf("class[%d]", i)
			name := r.readClassName(table, entry)
			if _, twice := r.cluster.Classes[name]; twice {
				r.addFault(r.lines.lineInTable(table, "name"), "the class %s is defined twice", name)
			}
			r.readClass(name, table, entry)
		}
	default:
		r.addFault(r.lines.global["class"], "class: %s is not a table; write [class.NAME], and its keys below that line", valueText(value))
	}
}

// readClassName returns the name in an entry of [[class]]. If the name is missing or invalid, it adds an error.
func (r *reader) readClassName(table string, entry any) string {
	keys, _ := entry.(map[string]any)
	for key, value := range keys {
		if name, is := value.(string); strings.EqualFold(key, "name") && is && name != "" {
			return name
		}
	}
	r.addFault(r.lines.lineInTable(table, "name"), "the name of the class is missing")
	return ""
}

// readClass reads one class. table is the name under which keyLines stores the line numbers of the class's keys.
func (r *reader) readClass(name, table string, entry any) {
	keys, ok := entry.(map[string]any)
	if !ok {
		r.addFault(r.lines.lineInTable("class", name), "class %s: %s is not a table; write [class.%s], and its keys below that line", name, valueText(entry), name)
		return
	}
	c := Class{name: name, Limits: make(limits.Map)}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		r.readClassKey(&c, table, key, keys[key])
	}
	r.cluster.Classes[name] = c
}

// readClassKey reads one key of a class and stores the value in c.
func (r *reader) readClassKey(c *Class, table, key string, value any) {
	line := r.lines.lineInTable(table, key)
	switch strings.ToLower(key) {
	case "name":
	case "limits":
		keys, ok := value.(map[string]any)
		if !ok {
			r.addFault(line, "limits: %s is not a table; write { mem = \"2gb\" }", valueText(value))
		}
		c.Limits = limits.Minimum(c.Limits, r.readLimits(table+".limits", keys))
	case "maxtime":
		c.Limits = limits.Minimum(c.Limits, r.readMaxTime(line, value))
	case "sort":
		word, _ := value.(string)
		if c.Sort = strings.TrimSpace(word); !isSortKey(c.Sort) {
			r.addFault(line, "sort: %s is not an order; allowed: %s", valueText(value), strings.Join(sort.KeyWords(false), ", "))
		}
	case "users", "groups":
		if c.name == "default" {
			r.addFault(line, "the class \"default\" cannot have %s, because it applies to all jobs without a class; to restrict nodes, use the key %s of [[node]]", key, key)
			return
		}
		r.readClassMembers(c, key, line, value)
	case "nodeset", "default":
		if c.name == "default" {
			r.addFault(line, "the class \"default\" cannot have %s; for jobs without a class, request node sets in [nodeset]", key)
			return
		}
		r.noteClassSets(c.name, table, key, line, value)
	default:
		r.addFault(line, "unknown key %q in a class; allowed: %s", key, strings.Join(classKeys, ", "))
	}
}

// readClassMembers reads the users or groups that may use a class.
func (r *reader) readClassMembers(c *Class, key string, line int, value any) {
	if key == "users" {
		c.Users = r.readMembers(line, key, value, r.ids.User)
		return
	}
	c.Groups = r.readMembers(line, key, value, r.ids.Group)
}

// readMaxTime reads the maximum run time of the jobs of a class. It returns a map with one entry, the limit walltime.
// If value is not a valid time, it adds an error and returns nil.
func (r *reader) readMaxTime(line int, value any) limits.Map {
	most, err := limits.Value(limits.WallTime, fmt.Sprint(value))
	if err != nil {
		r.addFault(line, "maxtime: %s is not a time such as 90, \"30m\" or \"1:30:00\"", valueText(value))
		return nil
	}
	return limits.Map{limits.WallTime: most}
}

func isSortKey(word string) bool {
	_, err := sort.Parse(word, false)
	return err == nil
}

// noteClassSets stores the node-set setting of a class, to be parsed later. The file can write this setting as
// nodeset, or as DEFAULT.NODESET like the Moab scheduler.
func (r *reader) noteClassSets(class, table, key string, line int, value any) {
	if strings.EqualFold(key, "nodeset") {
		r.pendingSets = append(r.pendingSets, pendingClassSets{class, table, key, line, value})
		return
	}
	keys, _ := value.(map[string]any)
	for sub, value := range keys {
		line = r.lines.lineInTable(table, key+"."+sub)
		if strings.EqualFold(sub, "nodeset") && len(keys) == 1 {
			r.pendingSets = append(r.pendingSets, pendingClassSets{class, table, key + "." + sub, line, value})
			return
		}
	}
	r.addFault(line, "%s: write %s.NODESET = \"ONEOF:...\"", key, key)
}
