//! Topic exchanges: binding keys in a trie by word, walked by all matches at once.
//!
//! The walk keeps the set of nodes that the words so far can reach, each at most once. So a message
//! costs at most (words of its key) × (nodes of the trie), however many `#` the binding keys have.

use std::cell::RefCell;

use hashbrown::{HashMap, HashSet};

use super::binding::Destination;
use super::pattern::{Word, pattern, words};
use super::reached::Reached;
use super::targets::Targets;

/// Place of a node in [`Topic::nodes`].
type NodeId = usize;

/// The node before the first word; it is never anyone's child.
const ROOT: NodeId = 0;

/// The memory of a node, with the map of its parent's that has it alone and the block of its word.
const NODE_BYTES: usize = size_of::<Node>() + 160;

/// The binding keys of the exchange.
#[derive(Debug)]
pub(super) struct Topic {
    nodes: Vec<Node>,
    /// Places in `nodes` that are free for reuse.
    free: Vec<NodeId>,
}

/// The continuations after some words of a binding key. Apart from the root, a node without
/// followers and targets is free.
#[derive(Default, Debug)]
struct Node {
    literals: HashMap<Box<str>, NodeId>,
    one: Option<NodeId>,
    many: Option<NodeId>,
    /// Destinations of the binding key that ends here.
    targets: Targets,
}

impl Node {
    fn child(&self, word: Word<'_>) -> Option<NodeId> {
        match word {
            Word::Literal(literal) => self.literals.get(literal).copied(),
            Word::One => self.one,
            Word::Many => self.many,
        }
    }

    fn set_child(&mut self, word: Word<'_>, child: NodeId) {
        match word {
            Word::Literal(literal) => {
                self.literals.insert(literal.into(), child);
            }
            Word::One => self.one = Some(child),
            Word::Many => self.many = Some(child),
        }
    }

    fn remove_child(&mut self, word: Word<'_>) {
        match word {
            Word::Literal(literal) => {
                self.literals.remove(literal);
            }
            Word::One => self.one = None,
            Word::Many => self.many = None,
        }
    }

    fn is_bare(&self) -> bool {
        self.targets.is_empty() && self.literals.is_empty() && self.one.is_none() && self.many.is_none()
    }
}

/// The state of a walk; empty between walks. It is kept between messages, since allocating it costs
/// more than most walks do.
#[derive(Default)]
struct Walk {
    /// Nodes that the words so far lead to, `#` apart. No node comes twice: each has one parent,
    /// and each parent is in `here` or in `many` once.
    here: Vec<NodeId>,
    /// Nodes that one more word leads to.
    next: Vec<NodeId>,
    /// The `#` nodes reached so far. They stay reached to the end of the key, since `#` takes any
    /// word.
    many: Vec<NodeId>,
    /// The same as `many`.
    seen: HashSet<NodeId>,
}

/// The size of the lists that a walk keeps. A larger one gives its memory back.
const KEPT: usize = 1024;

thread_local! {
    static WALK: RefCell<Walk> = RefCell::default();
}

impl Walk {
    /// Empties it for the next message.
    fn end(&mut self) {
        self.seen.clear();
        self.seen.shrink_to(KEPT);
        for nodes in [&mut self.here, &mut self.next, &mut self.many] {
            nodes.clear();
            nodes.shrink_to(KEPT);
        }
    }

    /// Reaches the `#` that may follow `node` and has matched no words yet. A `#` never follows
    /// another one.
    fn open(&mut self, node: &Node) {
        if let Some(many) = node.many
            && self.seen.insert(many)
        {
            self.many.push(many);
        }
    }
}

/// Bytes of memory of the nodes that a binding key needs, if it shares none.
pub(super) fn heap_bytes_of(key: &str) -> u64 {
    (pattern(key).count() * NODE_BYTES) as u64
}

impl Default for Topic {
    fn default() -> Self {
        Self { nodes: vec![Node::default()], free: Vec::new() }
    }
}

impl Topic {
    pub(super) fn add(&mut self, key: &str, destination: Destination) {
        let mut at = ROOT;
        for word in pattern(key) {
            at = match self.nodes[at].child(word) {
                Some(child) => child,
                None => {
                    let child = self.new_node();
                    self.nodes[at].set_child(word, child);
                    child
                }
            };
        }
        self.nodes[at].targets.add(destination);
    }

    /// Bytes of memory of its nodes. A key of 65 535 bytes may have as many words.
    pub(super) fn heap_bytes(&self) -> u64 {
        ((self.nodes.len() - self.free.len() - 1) * NODE_BYTES) as u64
    }

    pub(super) fn remove(&mut self, key: &str, destination: Destination) {
        let mut at = ROOT;
        let mut path = Vec::new();
        for word in pattern(key) {
            let Some(child) = self.nodes[at].child(word) else { return };
            path.push((at, word));
            at = child;
        }
        self.nodes[at].targets.remove(destination);
        while let Some((parent, word)) = path.pop() {
            if !self.nodes[at].is_bare() {
                return;
            }
            self.nodes[parent].remove_child(word);
            // A fresh node also gives back the memory of the old one's maps.
            self.nodes[at] = Node::default();
            self.free.push(at);
            at = parent;
        }
    }

    pub(super) fn route(&self, key: &str, into: &mut Reached) {
        WALK.with_borrow_mut(|walk| {
            self.walk(key, walk, into);
            for &id in walk.here.iter().chain(&walk.many) {
                if !into.charge(1) {
                    break;
                }
                self.nodes[id].targets.append_to(into);
            }
            walk.end();
        });
    }

    /// Leaves in `here` and `many` the nodes at which a binding key that matches `key` ends. It
    /// stops where `into` has no step left. No node of the trie takes part twice in a step, so it
    /// exceeds the budget by the nodes of one word at most.
    fn walk(&self, key: &str, walk: &mut Walk, into: &mut Reached) {
        walk.here.push(ROOT);
        walk.open(&self.nodes[ROOT]);
        for word in words(key) {
            walk.next.clear();
            if !into.charge(walk.here.len() + walk.many.len()) {
                return;
            }
            for &id in walk.here.iter().chain(&walk.many) {
                let node = &self.nodes[id];
                walk.next.extend(node.literals.get(word));
                walk.next.extend(node.one);
            }
            std::mem::swap(&mut walk.here, &mut walk.next);
            for place in 0..walk.here.len() {
                walk.open(&self.nodes[walk.here[place]]);
            }
            if walk.here.is_empty() && walk.many.is_empty() {
                return;
            }
        }
    }

    fn new_node(&mut self) -> NodeId {
        self.free.pop().unwrap_or_else(|| {
            self.nodes.push(Node::default());
            self.nodes.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reached(topic: &Topic, key: &str) -> Vec<u64> {
        let mut into = Reached::within(u32::MAX);
        topic.route(key, &mut into);
        let mut ids: Vec<u64> = into.take().into_iter().map(Destination::id).collect();
        ids.sort_unstable();
        ids
    }

    fn topic_of(keys: &[String]) -> Topic {
        let mut topic = Topic::default();
        for (id, key) in keys.iter().enumerate() {
            topic.add(key, Destination::Queue(id as u64));
        }
        topic
    }

    /// The specification of a match, word by word and by recursion.
    fn naive(pattern: &[&str], key: &[&str]) -> bool {
        match (pattern.split_first(), key.split_first()) {
            (None, None) => true,
            (None, Some(_)) => false,
            (Some((&"#", rest)), None) => naive(rest, key),
            (Some((&"#", rest)), Some((_, later))) => naive(rest, key) || naive(pattern, later),
            (Some(_), None) => false,
            (Some((word, rest)), Some((first, later))) => (*word == "*" || word == first) && naive(rest, later),
        }
    }

    fn split(key: &str) -> Vec<&str> {
        if key.is_empty() { Vec::new() } else { key.split('.').collect() }
    }

    #[test]
    fn patterns_match_or_not() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            ("", &[""], &["a", ".", "a.b"]),
            ("a", &["a"], &["", "b", "a.b", "A", "a."]),
            ("a.b", &["a.b"], &["a", "a.b.c", "a..b"]),
            ("*", &["a", "b"], &["", "a.b", "."]),
            ("*.*", &["a.b", ".", "a."], &["a", "a.b.c"]),
            ("a.*.c", &["a.b.c", "a..c"], &["a.c", "a.b.b.c"]),
            ("#", &["", "a", "a.b.c", "."], &[]),
            ("#.#", &["", "a", "a.b.c"], &[]),
            ("a.#", &["a", "a.b", "a.b.c", "a."], &["", "b", "b.a"]),
            ("#.a", &["a", "b.a", "a.a"], &["", "a.b", "aa"]),
            ("#.a.#", &["a", "b.a", "a.b", "b.a.b"], &["", "b", "b.c"]),
            ("*.#", &["a", "a.b", "a.b.c"], &[""]),
            ("#.*", &["a", "a.b", "a.b.c"], &[""]),
            ("a.#.b", &["a.b", "a.x.b", "a.b.b"], &["a", "b", "ab", "a.b.c"]),
            ("*.orange.*", &["quick.orange.rabbit"], &["orange", "quick.orange", "quick.orange.male.rabbit"]),
            ("lazy.#", &["lazy", "lazy.brown.fox"], &["lazyy", "quick.lazy"]),
            ("#.a.#.a.#", &["a.a", "x.a.y.a.z"], &["a", "x.a.y"]),
            ("*a", &["*a"], &["ba", "a"]),
        ];
        for (pattern, matching, others) in cases {
            let topic = topic_of(&[(*pattern).to_owned()]);
            for key in *matching {
                assert_eq!(reached(&topic, key), [0], "{pattern:?} matches {key:?}");
                assert!(naive(&split(pattern), &split(key)), "reference: {pattern:?} matches {key:?}");
            }
            for key in *others {
                assert!(reached(&topic, key).is_empty(), "{pattern:?} does not match {key:?}");
                assert!(!naive(&split(pattern), &split(key)), "reference: {pattern:?} does not match {key:?}");
            }
        }
    }

    /// Steps that this key is charged.
    fn steps(topic: &Topic, key: &str) -> usize {
        let mut into = Reached::within(u32::MAX);
        topic.route(key, &mut into);
        (u32::MAX - into.left()) as usize
    }

    #[test]
    fn many_hashes_cost_no_more_than_words_times_nodes() {
        // A matcher that tries every way to share out the words would need more steps than there
        // are atoms.
        let alike = |part: &str| (1..60).map(|count| vec![part; count].join(".")).collect::<Vec<_>>();
        for (patterns, matching) in [
            (alike("#.a"), 59),
            (alike("#.*"), 59),
            (alike("#.a.*"), 59),
            (alike("#.a.#"), 59),
            (alike("#"), 59),
            (vec![vec!["#"; 10_000].join(".")], 1),
            (vec![format!("{}.b", vec!["#.a"; 100].join("."))], 0),
        ] {
            let topic = topic_of(&patterns);
            for length in [1, 10, 500] {
                let key = vec!["a"; length].join(".");
                let (steps, bound) = (steps(&topic, &key), (length + 1) * topic.nodes.len());
                assert!(steps <= bound, "{steps} steps for {length} words in {} nodes", topic.nodes.len());
            }
            let key = vec!["a"; 500].join(".");
            assert_eq!(reached(&topic, &key).len(), matching, "{}", patterns[0]);
        }
    }

    #[test]
    fn a_key_costs_no_more_for_what_others_bind() {
        let mut keys: Vec<String> = (0..1000).map(|number| format!("other{number}.#.x")).collect();
        keys.push("mine.*.c".to_owned());
        let topic = topic_of(&keys);
        assert_eq!((steps(&topic, "mine.b.c"), reached(&topic, "mine.b.c")), (4, vec![1000]));
    }

    #[test]
    fn a_walk_ends_where_its_steps_do() {
        // Each key of ten words reaches all of 1024 nodes, which stay reached to the end of the
        // key.
        let word = |number: usize, place: usize| if number >> place & 1 == 0 { "a" } else { "*" };
        let begin = |number| (0..10).map(|place| word(number, place)).collect::<Vec<_>>().join(".");
        let topic = topic_of(&(0..1024).map(|number| format!("{}.#.b{number}", begin(number))).collect::<Vec<_>>());
        let (long, short) = (["a"; 127].join("."), format!("{}.b7", ["a"; 10].join(".")));
        let mut into = Reached::within(10_000);
        topic.route(&long, &mut into);
        assert!(into.is_spent());
        topic.route(&short, &mut into);
        assert!(into.is_empty(), "nothing is looked for without a step left");
        assert_eq!(reached(&topic, &short), [7], "the next message finds the walk empty");
    }

    #[test]
    fn a_very_long_key_needs_no_deep_stack() {
        let key = vec!["a"; 200_000].join(".");
        let mut topic = topic_of(&[key.clone(), "a.#".to_owned()]);
        assert_eq!(reached(&topic, &key), [0, 1]);
        topic.remove(&key, Destination::Queue(0));
        assert_eq!(reached(&topic, &key), [1]);
    }

    /// A binding key of 64 KiB once counted with its bytes alone, while its words took a hundred
    /// times as much.
    #[test]
    fn each_word_counts_as_memory_while_it_is_there() {
        let long = vec!["a"; 32_768].join(".");
        let mut topic = topic_of(&["a.b".to_owned(), "a.#.#".to_owned()]);
        let before = topic.heap_bytes();
        assert_eq!(before, 3 * NODE_BYTES as u64, "`a` is shared, and `#.#` is `#`");
        topic.add(&long, Destination::Queue(9));
        assert_eq!(topic.heap_bytes() - before, heap_bytes_of(&long) - NODE_BYTES as u64);
        assert!(heap_bytes_of(&long) > 100 * long.len() as u64);
        topic.remove(&long, Destination::Queue(9));
        assert_eq!(topic.heap_bytes(), before);
    }

    #[test]
    fn removal_gives_all_nodes_back() {
        let mut topic = topic_of(&["a.b.c".to_owned(), "a.b".to_owned(), "a.#.*".to_owned()]);
        topic.remove("a.b.c.d", Destination::Queue(0));
        topic.remove("a.b.c", Destination::Queue(0));
        assert_eq!(reached(&topic, "a.b"), [1, 2], "a key that is the beginning of another one stays");
        topic.remove("a.b", Destination::Queue(1));
        topic.remove("a.#.*", Destination::Queue(2));
        assert_eq!(topic.free.len() + 1, topic.nodes.len());
        assert!(topic.nodes[ROOT].is_bare());
        topic.add("x.y", Destination::Queue(9));
        assert_eq!(topic.free.len(), 3, "a free node is used again");
    }

    fn key_of(words: &'static [&'static str]) -> impl Strategy<Value = String> {
        prop::collection::vec(prop::sample::select(words), 0..7).prop_map(|words| words.join("."))
    }

    proptest! {
        #[test]
        fn routes_as_the_naive_matcher(
            patterns in prop::collection::vec(key_of(&["a", "b", "", "*", "#", "#"]), 1..12),
            keys in prop::collection::vec(key_of(&["a", "b", "", "c"]), 1..8),
            gone in prop::collection::vec(any::<bool>(), 12),
        ) {
            let mut topic = topic_of(&patterns);
            for (id, key) in patterns.iter().enumerate().filter(|(id, _)| gone[*id]) {
                topic.remove(key, Destination::Queue(id as u64));
            }
            for key in &keys {
                let expected: Vec<u64> = (0..patterns.len())
                    .filter(|&id| !gone[id] && naive(&split(&patterns[id]), &split(key)))
                    .map(|id| id as u64)
                    .collect();
                prop_assert_eq!(reached(&topic, key), expected, "{:?} against {:?}", key, &patterns);
            }
        }
    }
}
