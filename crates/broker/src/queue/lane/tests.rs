//! The lane against a naive model: a sorted map of everything that is not done.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn entry(state: State) -> Entry {
    Entry { message: None, address: None, expires_at: u64::MAX, returns: 0, redelivered: false, state }
}

#[derive(Debug, Clone)]
enum Step {
    Push(bool),
    Deliver,
    Change(u16, u8),
    Skip(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => any::<bool>().prop_map(Step::Push),
        4 => Just(Step::Deliver),
        6 => (any::<u16>(), 0..4u8).prop_map(|(pick, state)| Step::Change(pick, state)),
        1 => (0..9u8).prop_map(Step::Skip),
    ]
}

fn apply(lane: &mut Lane, model: &mut BTreeMap<u64, State>, step: Step) {
    match step {
        Step::Push(ready) => {
            let state = if ready { State::Ready } else { State::Hidden };
            let seq = lane.push(entry(state));
            assert!(model.insert(seq, state).is_none());
        }
        Step::Deliver => {
            let expected = model.iter().find(|(_, state)| **state == State::Ready).map(|(seq, _)| *seq);
            assert_eq!(lane.first_ready(), expected);
            if let Some(seq) = expected {
                lane.set(seq, State::Out);
                model.insert(seq, State::Out);
            }
        }
        Step::Change(pick, state) => {
            let Some(seq) = model.keys().nth(pick as usize % model.len().max(1)).copied() else { return };
            let state = [State::Ready, State::Out, State::Dying, State::Done][state as usize];
            lane.set(seq, state);
            if state == State::Done {
                model.remove(&seq);
            } else {
                model.insert(seq, state);
            }
        }
        Step::Skip(count) => lane.skip_to(lane.next() + u64::from(count)),
    }
}

proptest! {
    #[test]
    fn behaves_like_a_sorted_map(start in 0u64..5000, fill in 0usize..9000, steps in prop::collection::vec(step(), 0..400)) {
        let mut lane = Lane::starting_at(start);
        let mut model = BTreeMap::new();
        for _ in 0..fill {
            apply(&mut lane, &mut model, Step::Push(true));
        }
        for step in steps {
            apply(&mut lane, &mut model, step);
        }
        prop_assert_eq!(lane.live(), model.len());
        prop_assert_eq!(lane.ready(), model.values().filter(|state| **state == State::Ready).count());
        let left: Vec<_> = lane.iter().map(|(seq, entry)| (seq, entry.state)).collect();
        prop_assert_eq!(left, model.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn one_old_entry_does_not_keep_the_memory_of_what_came_after() {
    let mut lane = Lane::starting_at(0);
    let old = lane.push(entry(State::Ready));
    for _ in 0..20 * PAGE {
        let seq = lane.push(entry(State::Ready));
        lane.set(seq, State::Done);
    }
    let kept: usize = lane.pages.iter().map(|page| page.entries.capacity()).sum();
    assert!(kept <= 3 * PAGE, "{kept} entries are kept in memory for one");
    assert_eq!(lane.first_ready(), Some(old));
}
