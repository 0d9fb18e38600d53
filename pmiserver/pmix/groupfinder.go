package pmix

import "context"

// A GroupFinder finds the groups of the job that have no ranks on this node. Such groups are parents or children of
// local groups, or groups to which local groups connect.
type GroupFinder interface {
	// Namespace returns the namespace of a group of the job.
	Namespace(group string) string

	// FindGroup asks mpiexec for the group of a namespace, and returns an error if there is none. It may
	// block. When the group ends, RemoveGroup is called.
	FindGroup(ctx context.Context, namespace string) (Group, error)
}

// A groupSearch records the calls of FindGroup in progress, and the groups that ended meanwhile. Server.mu guards it.
type groupSearch struct {
	clients int             // running calls of FindGroup
	ended   map[string]bool // groups that ended meanwhile: RemoveGroup may come before FindGroup returns
}

func (x *groupSearch) noteEnded(group string) {
	if x.clients > 0 {
		if x.ended == nil {
			x.ended = make(map[string]bool)
		}
		x.ended[group] = true
	}
}

// findGroup returns the group with the given namespace, or nil if there is no such group. The group's ranks may
// be on any node.
func (s *Server) findGroup(namespace string) *group {
	g := s.groupByNamespace(namespace)
	if g != nil || s.GroupFinder == nil {
		return g
	}
	s.mu.Lock()
	s.search.clients++
	s.mu.Unlock()
	found, err := s.GroupFinder.FindGroup(s.waitCtx, namespace)
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := s.search.ended[found.Name]
	if s.search.clients--; s.search.clients == 0 {
		s.search.ended = nil
	}
	if err != nil || ended {
		return nil
	}
	return s.addRemoteGroup(found)
}

// addRemoteGroup adds a group that has no local ranks, and returns it. If the group was added before, it
// returns the existing one. The caller holds s.mu.
func (s *Server) addRemoteGroup(found Group) *group {
	for _, g := range s.groups {
		if g.Name == found.Name {
			return g
		}
	}
	g := newGroup(s, found)
	s.groups = append(s.groups, g)
	return g
}
