//! A node's state: one base state and any number of flags, and every question that is asked of them.

use std::fmt;

/// What Slurm mainly says of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Base {
    Idle,
    Allocated,
    Mixed,
    /// A base state up to 20.11, a flag later.
    Completing,
    Down,
    Error,
    Future,
    #[default]
    Unknown,
    /// A word that Kiln does not know. Such a node is not in service, and nothing else follows from it.
    Other(String),
}

const BASES: [(Base, &str); 8] = [
    (Base::Idle, "IDLE"),
    (Base::Allocated, "ALLOCATED"),
    (Base::Mixed, "MIXED"),
    (Base::Completing, "COMPLETING"),
    (Base::Down, "DOWN"),
    (Base::Error, "ERROR"),
    (Base::Future, "FUTURE"),
    (Base::Unknown, "UNKNOWN"),
];

impl Base {
    fn parse(word: &str) -> Base {
        let known = BASES.iter().find(|(_, name)| name.eq_ignore_ascii_case(word));
        known.map_or_else(|| Base::Other(word.to_string()), |(base, _)| base.clone())
    }

    fn word(&self) -> &str {
        match self {
            Base::Other(word) => word,
            known => BASES.iter().find(|(base, _)| base == known).map_or("UNKNOWN", |(_, name)| name),
        }
    }
}

/// What Slurm says of a node besides its base state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flag {
    /// Powered up when Slurm needs it.
    Cloud,
    Completing,
    Drain,
    Fail,
    /// slurmd registered with less than slurm.conf says.
    InvalidReg,
    /// In a reservation for maintenance.
    Maintenance,
    NotResponding,
    Planned,
    /// To be powered down as soon as its jobs are over.
    PowerDown,
    /// Drained, and then to be powered down.
    PowerDrain,
    /// To be powered up: Slurm is about to call its hook.
    PowerUp,
    PoweredDown,
    PoweringDown,
    /// Slurm has called its hook, and waits for the node.
    PoweringUp,
    /// The reboot hook was called.
    RebootIssued,
    /// The reboot hook will be called when the node is free.
    RebootRequested,
    Reserved,
    /// A word that Kiln does not know; it is shown, and nothing follows from it.
    Other(String),
}

/// The first name of a flag is the one that is shown.
const FLAGS: [(Flag, &str); 19] = [
    (Flag::Cloud, "CLOUD"),
    (Flag::Completing, "COMPLETING"),
    (Flag::Drain, "DRAIN"),
    (Flag::Fail, "FAIL"),
    (Flag::InvalidReg, "INVALID_REG"),
    (Flag::Maintenance, "MAINTENANCE"),
    (Flag::Maintenance, "MAINT"),
    (Flag::NotResponding, "NOT_RESPONDING"),
    (Flag::Planned, "PLANNED"),
    (Flag::PowerDown, "POWER_DOWN"),
    (Flag::PowerDrain, "POWER_DRAIN"),
    (Flag::PowerUp, "POWER_UP"),
    (Flag::PoweredDown, "POWERED_DOWN"),
    (Flag::PoweringDown, "POWERING_DOWN"),
    (Flag::PoweringUp, "POWERING_UP"),
    (Flag::RebootIssued, "REBOOT_ISSUED"),
    (Flag::RebootRequested, "REBOOT_REQUESTED"),
    // Up to 20.11.
    (Flag::RebootRequested, "REBOOT"),
    (Flag::Reserved, "RESERVED"),
];

impl Flag {
    fn parse(word: &str) -> Flag {
        let known = FLAGS.iter().find(|(_, name)| name.eq_ignore_ascii_case(word));
        known.map_or_else(|| Flag::Other(word.to_string()), |(flag, _)| flag.clone())
    }

    fn word(&self) -> &str {
        match self {
            Flag::Other(word) => word,
            known => FLAGS.iter().find(|(flag, _)| flag == known).map_or("UNKNOWN", |(_, name)| name),
        }
    }
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.word().to_lowercase())
    }
}

/// Each flag at most once, in the order in which Slurm prints them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags(Vec<Flag>);

impl Flags {
    pub fn insert(&mut self, flag: Flag) {
        if !self.0.contains(&flag) {
            self.0.push(flag);
        }
    }

    pub fn has(&self, flag: &Flag) -> bool {
        self.0.contains(flag)
    }

    fn has_any(&self, flags: &[Flag]) -> bool {
        self.0.iter().any(|flag| flags.contains(flag))
    }
}

impl FromIterator<Flag> for Flags {
    fn from_iter<I: IntoIterator<Item = Flag>>(flags: I) -> Self {
        let mut set = Flags::default();
        flags.into_iter().for_each(|flag| set.insert(flag));
        set
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    pub base: Base,
    pub flags: Flags,
}

impl State {
    /// Reads `DOWN*+DRAIN+POWERING_UP` as `scontrol show node` prints it, and the same in lower case as Kiln shows it.
    pub fn parse(text: &str) -> State {
        let mut words = text.split('+');
        let first = words.next().unwrap_or_default();
        let base = first.trim_end_matches(|c: char| !c.is_ascii_alphabetic() && c != '_');
        let mut flags: Flags = words.map(|word| Flag::parse(word.trim_end_matches('*'))).collect();
        // The old way to say it.
        if text.contains('*') {
            flags.insert(Flag::NotResponding);
        }
        State { base: Base::parse(base), flags }
    }

    /// The node takes jobs or runs them.
    pub fn in_service(&self) -> bool {
        const OUT: [Flag; 8] = [
            Flag::Drain,
            Flag::Fail,
            Flag::NotResponding,
            Flag::PoweredDown,
            Flag::PoweringDown,
            Flag::PoweringUp,
            Flag::RebootIssued,
            Flag::InvalidReg,
        ];
        let serves = matches!(self.base, Base::Idle | Base::Allocated | Base::Mixed | Base::Completing);
        serves && !self.flags.has_any(&OUT)
    }

    pub fn is_down(&self) -> bool {
        self.base == Base::Down
    }

    pub fn is_drained(&self) -> bool {
        self.flags.has(&Flag::Drain)
    }

    /// slurmd has last registered with less than slurm.conf says.
    pub fn is_registration_refused(&self) -> bool {
        self.flags.has(&Flag::InvalidReg)
    }

    pub fn is_responding(&self) -> bool {
        !self.flags.has(&Flag::NotResponding)
    }

    /// Slurm hears from it: it has registered, and answers. Whatever else is said of such a node, it runs.
    pub fn is_heard_from(&self) -> bool {
        const AWAY: [Flag; 5] = [
            Flag::NotResponding,
            Flag::PoweredDown,
            Flag::PoweringDown,
            Flag::PoweringUp,
            Flag::RebootIssued,
        ];
        let serves = matches!(self.base, Base::Idle | Base::Allocated | Base::Mixed | Base::Completing);
        serves && !self.flags.has_any(&AWAY)
    }

    /// Slurm knows that the node is to come up. Until [`State::is_powering_up`] it takes its time: up to
    /// `power_save_interval`, and longer where `ResumeRate` bounds it.
    pub fn is_coming_up(&self) -> bool {
        self.flags.has_any(&[Flag::PoweringUp, Flag::PowerUp])
    }

    /// Slurm has called its resume hook, and waits for the node.
    pub fn is_powering_up(&self) -> bool {
        self.flags.has(&Flag::PoweringUp)
    }

    pub fn is_going_down(&self) -> bool {
        self.flags.has_any(&[Flag::PoweringDown, Flag::PowerDown])
    }

    /// Slurm has it powered down, whatever it has asked for since.
    pub fn is_powered_down(&self) -> bool {
        self.flags.has(&Flag::PoweredDown)
    }

    /// Slurm has called its suspend hook.
    pub fn is_powering_down_or_off(&self) -> bool {
        self.flags.has_any(&[Flag::PoweredDown, Flag::PoweringDown])
    }

    /// Slurm has it powered down, and has asked for nothing since.
    pub fn is_off(&self) -> bool {
        self.is_powered_down() && !self.is_coming_up() && !self.flags.has(&Flag::PowerDown)
    }

    /// Off because no job needs it.
    pub fn is_off_and_available(&self) -> bool {
        self.is_off() && !self.is_down() && !self.is_drained()
    }

    /// Slurm takes away the instance that the node has, or has done so.
    pub fn is_losing_instance(&self) -> bool {
        let leaving =
            [Flag::PowerDown, Flag::PowerDrain, Flag::PoweringDown, Flag::PoweredDown, Flag::PowerUp];
        self.flags.has_any(&leaving)
    }

    /// Slurm is to have it rebooted, or has called the reboot hook and waits for the node.
    pub fn is_waiting_for_reboot(&self) -> bool {
        self.flags.has_any(&[Flag::RebootIssued, Flag::RebootRequested])
    }

    /// Slurm waits for it to boot: it was powered up, or the reboot hook was called.
    pub fn is_booting(&self) -> bool {
        self.flags.has_any(&[Flag::PoweringUp, Flag::RebootIssued])
    }

    /// Slurm has asked for a boot or will do so, and waits for the node itself.
    pub fn is_awaited_by_slurm(&self) -> bool {
        self.is_powering_up() || self.is_waiting_for_reboot()
    }

    /// Slurm expects the node to run now, and not only after some boot.
    pub fn is_up(&self) -> bool {
        let at_rest = !self.is_coming_up() && !self.is_going_down() && !self.is_waiting_for_reboot();
        at_rest && !self.is_down() && !self.is_powered_down()
    }

    /// Somebody has taken it out for a while: by a reservation for maintenance, or by `scontrol update state=fail`.
    pub fn taken_out_by(&self) -> Option<&Flag> {
        [&Flag::Maintenance, &Flag::Fail].into_iter().find(|flag| self.flags.has(flag))
    }

    /// No job runs there.
    pub fn is_empty(&self) -> bool {
        matches!(self.base, Base::Idle | Base::Down) && !self.flags.has(&Flag::Completing)
    }

    /// Jobs that are over have yet to leave it, and no other has it.
    pub fn is_ending_jobs(&self) -> bool {
        let ending = self.flags.has(&Flag::Completing) || self.base == Base::Completing;
        ending && !matches!(self.base, Base::Allocated | Base::Mixed)
    }

    /// Jobs have some of the node.
    pub fn is_allocated(&self) -> bool {
        let allocated = matches!(self.base, Base::Allocated | Base::Mixed | Base::Completing);
        allocated || self.flags.has(&Flag::Completing)
    }
}

/// `idle`, `down+drain`: as short as a table wants it.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base.word().to_lowercase())?;
        self.flags.0.iter().try_for_each(|flag| write!(f, "+{flag}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_flags_are_split() {
        let state = State::parse("DOWN*+DRAIN+POWERING_UP");
        assert_eq!(state.base, Base::Down);
        assert_eq!(state.flags, [Flag::Drain, Flag::PoweringUp, Flag::NotResponding].into_iter().collect());
        assert_eq!(state.to_string(), "down+drain+powering_up+not_responding");
        assert_eq!(State::parse("IDLE*+NOT_RESPONDING").to_string(), "idle+not_responding");
        assert_eq!(State::parse(""), State { base: Base::Other(String::new()), ..State::default() });
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        for text in ["IDLE", "DOWN+CLOUD+POWERED_DOWN", "MIXED+DRAIN+NEW_FLAG", "NEW_STATE+FAIL"] {
            let state = State::parse(text);
            assert_eq!(state.to_string(), text.to_lowercase());
            assert_eq!(State::parse(&state.to_string()).to_string(), state.to_string());
        }
        assert_eq!(State::parse("idle+maint"), State::parse("IDLE+MAINTENANCE"));
    }

    #[test]
    fn unknown_words_are_harmless() {
        assert!(!State::parse("NEW_STATE").in_service());
        assert!(!State::parse("NEW_STATE").is_down());
        assert!(State::parse("IDLE+NEW_FLAG").in_service());
    }

    /// State, then: in service, empty, up, off, coming up, going down.
    #[test]
    fn questions_are_answered() {
        let rows = [
            ("IDLE", [true, true, true, false, false, false]),
            ("MIXED+PLANNED", [true, false, true, false, false, false]),
            ("IDLE+COMPLETING", [true, false, true, false, false, false]),
            ("IDLE+DRAIN", [false, true, true, false, false, false]),
            ("IDLE+CLOUD+POWERED_DOWN", [false, true, false, true, false, false]),
            ("IDLE+CLOUD+POWERED_DOWN+POWER_UP", [false, true, false, false, true, false]),
            ("ALLOCATED+CLOUD+POWERING_UP", [false, false, false, false, true, false]),
            ("MIXED+CLOUD+POWER_DOWN", [true, false, false, false, false, true]),
            ("IDLE+CLOUD+POWERING_DOWN", [false, true, false, false, false, true]),
            ("IDLE+REBOOT_REQUESTED", [true, true, false, false, false, false]),
            ("IDLE+REBOOT_ISSUED", [false, true, false, false, false, false]),
            ("DOWN+NOT_RESPONDING", [false, true, false, false, false, false]),
        ];
        for (text, expected) in rows {
            let s = State::parse(text);
            let answers =
                [s.in_service(), s.is_empty(), s.is_up(), s.is_off(), s.is_coming_up(), s.is_going_down()];
            assert_eq!(answers, expected, "{text}");
        }
    }

    #[test]
    fn a_node_that_answers_is_heard_from_whatever_is_planned_for_it() {
        for text in ["IDLE", "MIXED+DRAIN", "ALLOCATED+REBOOT_REQUESTED", "MIXED+CLOUD+POWER_DOWN"] {
            assert!(State::parse(text).is_heard_from(), "{text}");
        }
        let silent = ["IDLE*", "DOWN", "ALLOCATED+CLOUD+POWERING_UP", "IDLE+CLOUD+POWERED_DOWN"];
        for text in silent.into_iter().chain(["IDLE+REBOOT_ISSUED", "IDLE+CLOUD+POWERING_DOWN", "UNKNOWN"]) {
            assert!(!State::parse(text).is_heard_from(), "{text}");
        }
    }

    #[test]
    fn waits_are_told_apart() {
        let waits = |text: &str| {
            let s = State::parse(text);
            [s.is_powering_up(), s.is_waiting_for_reboot(), s.is_booting(), s.is_awaited_by_slurm()]
        };
        assert_eq!(waits("IDLE+POWERING_UP"), [true, false, true, true]);
        assert_eq!(waits("IDLE+POWER_UP"), [false, false, false, false]);
        assert_eq!(waits("IDLE+REBOOT_ISSUED"), [false, true, true, true]);
        assert_eq!(waits("IDLE+REBOOT_REQUESTED"), [false, true, false, true]);
        assert!(State::parse("IDLE+POWER_DRAIN").is_losing_instance());
        assert!(!State::parse("IDLE+POWERING_UP").is_losing_instance());
        assert_eq!(State::parse("IDLE+MAINT").taken_out_by(), Some(&Flag::Maintenance));
    }
}
