//! Values of properties and expressions: how they compare and count.
//!
//! Integers are 64 bits wide and compare with floating-point numbers by their exact values. What
//! overflows goes on as a floating-point number; what has no result is unknown.

use std::borrow::Cow;
use std::cmp::Ordering;

/// What a property or an expression is worth.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// Nothing is known of it: the property does not exist, or has no type that a selector can
    /// compare.
    Null,
    /// A truth value.
    Bool(bool),
    /// An exact number.
    Int(i64),
    /// An approximate number.
    Float(f64),
    /// Text.
    Text(Cow<'a, str>),
}

impl<'a> Value<'a> {
    /// Text that is borrowed.
    pub fn text(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// True for those that only numbers know.
    pub(crate) fn orders(self) -> bool {
        !matches!(self, Self::Equal | Self::Unequal)
    }

    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::Unequal => ordering.is_ne(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }

    /// Compares; unknown where a side is, and false for values of unlike types.
    pub(crate) fn apply(self, left: &Value<'_>, right: &Value<'_>) -> Option<bool> {
        let ordering = match (left, right) {
            (Value::Null, _) | (_, Value::Null) => return None,
            (Value::Bool(left), Value::Bool(right)) if !self.orders() => Some(left.cmp(right)),
            (Value::Text(left), Value::Text(right)) if !self.orders() => Some(left.cmp(right)),
            (Value::Int(left), Value::Int(right)) => Some(left.cmp(right)),
            (Value::Float(left), Value::Float(right)) => left.partial_cmp(right),
            (Value::Int(left), Value::Float(right)) => compare_exactly(*left, *right),
            (Value::Float(left), Value::Int(right)) => compare_exactly(*right, *left).map(Ordering::reverse),
            _ => None,
        };
        Some(ordering.is_some_and(|ordering| self.holds(ordering)))
    }
}

/// Without rounding the integer, of which a floating-point number may not tell neighbours apart.
fn compare_exactly(int: i64, float: f64) -> Option<Ordering> {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    if float.is_nan() {
        return None;
    }
    if float >= BEYOND {
        return Some(Ordering::Less);
    }
    if float < -BEYOND {
        return Some(Ordering::Greater);
    }
    let whole = float.trunc();
    Some(int.cmp(&(whole as i64)).then_with(|| 0.0f64.partial_cmp(&(float - whole)).unwrap_or(Ordering::Equal)))
}

/// The four operations, and the remainder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Operation {
    /// Calculates; two texts are joined by `+`. Null where a side is no number, and for a division
    /// by zero.
    pub(crate) fn apply<'a>(self, left: Value<'a>, right: Value<'a>) -> Value<'a> {
        match (left, right) {
            (Value::Int(left), Value::Int(right)) => self.exact(left, right),
            (Value::Text(left), Value::Text(right)) if self == Self::Add => Value::Text(left + right),
            (left, right) => match (approximate(&left), approximate(&right)) {
                (Some(left), Some(right)) => self.approximately(left, right),
                _ => Value::Null,
            },
        }
    }

    fn exact(self, left: i64, right: i64) -> Value<'static> {
        let exact = match self {
            Self::Add => left.checked_add(right),
            Self::Subtract => left.checked_sub(right),
            Self::Multiply => left.checked_mul(right),
            // Five halves are two and a half, as in all brokers with selectors.
            Self::Divide => left.checked_rem(right).filter(|rest| *rest == 0).and_then(|_| left.checked_div(right)),
            Self::Remainder => left.checked_rem(right),
        };
        match exact {
            Some(number) => Value::Int(number),
            None => self.approximately(left as f64, right as f64),
        }
    }

    fn approximately(self, left: f64, right: f64) -> Value<'static> {
        match self {
            Self::Divide | Self::Remainder if right == 0.0 => Value::Null,
            Self::Add => Value::Float(left + right),
            Self::Subtract => Value::Float(left - right),
            Self::Multiply => Value::Float(left * right),
            Self::Divide => Value::Float(left / right),
            Self::Remainder => Value::Float(left % right),
        }
    }
}

fn approximate(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        Value::Null | Value::Bool(_) | Value::Text(_) => None,
    }
}

/// The number with its sign turned; Null for what is none.
pub(crate) fn negate(value: &Value<'_>) -> Value<'static> {
    match value {
        Value::Int(number) => number.checked_neg().map_or(Value::Float(-(*number as f64)), Value::Int),
        Value::Float(number) => Value::Float(-number),
        Value::Null | Value::Bool(_) | Value::Text(_) => Value::Null,
    }
}

/// Text as a value of the type of `model`, if it is one, for selectors that convert.
pub(crate) fn convert<'a>(value: Value<'a>, model: &Value<'_>) -> Value<'a> {
    let Value::Text(text) = &value else { return value };
    let trimmed = text.trim();
    let converted = match model {
        Value::Int(_) | Value::Float(_) => {
            let exact = trimmed.parse().ok().map(Value::Int);
            exact.or_else(|| trimmed.parse().ok().map(Value::Float))
        }
        Value::Bool(_) => match () {
            () if trimmed.eq_ignore_ascii_case("true") => Some(Value::Bool(true)),
            () if trimmed.eq_ignore_ascii_case("false") => Some(Value::Bool(false)),
            () => None,
        },
        Value::Null | Value::Text(_) => None,
    };
    converted.unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_compares_with_a_float_by_its_exact_value() {
        let big = 9_007_199_254_740_993;
        for (int, float, expected) in [
            (1, 1.0, Some(Ordering::Equal)),
            (1, 1.5, Some(Ordering::Less)),
            (-1, -1.5, Some(Ordering::Greater)),
            (0, -0.0, Some(Ordering::Equal)),
            (big, 9_007_199_254_740_992.0, Some(Ordering::Greater)),
            (i64::MAX, 9_223_372_036_854_775_808.0, Some(Ordering::Less)),
            (i64::MIN, -9_223_372_036_854_775_808.0, Some(Ordering::Equal)),
            (i64::MIN, f64::NEG_INFINITY, Some(Ordering::Greater)),
            (0, f64::NAN, None),
        ] {
            assert_eq!(compare_exactly(int, float), expected, "{int} and {float}");
        }
    }

    #[test]
    fn what_overflows_goes_on_approximately() {
        let cases = [
            (Operation::Add, i64::MAX, 1, Value::Float(9_223_372_036_854_775_808.0)),
            (Operation::Subtract, i64::MIN, 1, Value::Float(-9_223_372_036_854_775_808.0)),
            (Operation::Multiply, i64::MAX, 2, Value::Float(18_446_744_073_709_551_616.0)),
            (Operation::Divide, i64::MIN, -1, Value::Float(9_223_372_036_854_775_808.0)),
            (Operation::Remainder, i64::MIN, -1, Value::Float(-0.0)),
            (Operation::Divide, 7, 2, Value::Float(3.5)),
            (Operation::Divide, 8, 2, Value::Int(4)),
            (Operation::Divide, 1, 0, Value::Null),
            (Operation::Remainder, 1, 0, Value::Null),
        ];
        for (operation, left, right, expected) in cases {
            assert_eq!(operation.apply(Value::Int(left), Value::Int(right)), expected, "{operation:?} {left} {right}");
        }
        assert_eq!(negate(&Value::Int(i64::MIN)), Value::Float(9_223_372_036_854_775_808.0));
    }
}
