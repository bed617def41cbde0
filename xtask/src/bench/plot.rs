//! How the ways grow with the amount of work, as a picture: logarithms on both axes, so that what grows in proportion is
//! a straight line, and no unit, because a time would say something about the machine.

use std::fmt::Write as _;

use super::ratio::{Measurement, Way, growth};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
/// Left, right, above and below the picture.
const MARGINS: (f64, f64, f64, f64) = (60.0, 90.0, 40.0, 50.0);

/// The picture of a work, with what there is more and more of below it; none if there is nothing to compare.
pub(super) fn plot(title: &str, of_what: &str, of: &[Measurement]) -> Option<String> {
    let ways: Vec<_> = Way::ALL.into_iter().map(|way| (way, growth(of, way))).collect();
    let longest = ways.iter().map(|(_, points)| points.len()).max()?;
    if longest < 3 {
        return None;
    }
    let least = ways.iter().flat_map(|(_, points)| points).map(|point| point.1);
    let least = least.min_by(f64::total_cmp)?;
    let relative = |points: Vec<(f64, f64)>| -> Vec<_> {
        points.into_iter().map(|(x, y)| (x.log10(), (y / least).log10())).collect()
    };
    let ways: Vec<_> = ways.into_iter().map(|(way, points)| (way, relative(points))).collect();
    let all = || ways.iter().flat_map(|(_, points)| points);
    let axes = Axes {
        x: Axis::around(all().map(|point| point.0))?,
        y: Axis::around(all().map(|point| point.1))?,
    };
    let mut picture = axes.frame(title, of_what);
    for (way, points) in ways.iter().filter(|(_, points)| !points.is_empty()) {
        picture += &axes.line(*way, points);
    }
    Some(picture + "</svg>\n")
}

/// From which power of ten to which.
struct Axis {
    from: f64,
    to: f64,
}

struct Axes {
    x: Axis,
    y: Axis,
}

impl Axis {
    fn around(logarithms: impl Iterator<Item = f64> + Clone) -> Option<Self> {
        let from = logarithms.clone().min_by(f64::total_cmp)?.floor();
        let to = logarithms.max_by(f64::total_cmp)?.ceil();
        Some(Self { from, to: to.max(from + 1.0) })
    }

    /// Which part of the way something is along.
    fn part(&self, logarithm: f64) -> f64 {
        (logarithm - self.from) / (self.to - self.from)
    }

    fn powers(&self) -> impl Iterator<Item = f64> {
        std::iter::successors(Some(self.from), |power| Some(power + 1.0))
            .take_while(|power| *power <= self.to)
    }
}

impl Axes {
    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let (left, right, above, below) = MARGINS;
        let across = (WIDTH - left - right).mul_add(self.x.part(x), left);
        (across, (HEIGHT - above - below).mul_add(1.0 - self.y.part(y), above))
    }

    fn frame(&self, title: &str, of_what: &str) -> String {
        let middle = f64::midpoint(MARGINS.0, WIDTH - MARGINS.1);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
             <text x=\"{middle}\" y=\"22\" text-anchor=\"middle\">{title}</text>\n\
             <text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{of_what}</text>\n\
             <text x=\"16\" y=\"{}\" text-anchor=\"middle\" transform=\"rotate(-90 16 {})\">\
             how long it takes, relatively</text>\n",
            HEIGHT - 10.0,
            HEIGHT / 2.0,
            HEIGHT / 2.0,
        );
        for power in self.x.powers() {
            let (x, below) = self.place((power, self.y.from));
            let (_, above) = self.place((power, self.y.to));
            svg += &grid((x, below), (x, above));
            svg += &label((x, below + 18.0), "middle", power);
        }
        for power in self.y.powers() {
            let (left, y) = self.place((self.x.from, power));
            let (right, _) = self.place((self.x.to, power));
            svg += &grid((left, y), (right, y));
            svg += &label((left - 6.0, y + 4.0), "end", power);
        }
        svg
    }

    fn line(&self, way: Way, points: &[(f64, f64)]) -> String {
        let colour = match way {
            Way::Floor => "#2a7f3b",
            Way::Ours => "#1f5fbf",
            Way::Naive => "#b5382a",
        };
        let mut places = String::new();
        let mut marks = String::new();
        let mut end = (0.0, 0.0);
        for point in points {
            end = self.place(*point);
            // Writing into a string cannot fail.
            let _ = write!(places, "{:.1},{:.1} ", end.0, end.1);
            let (x, y) = end;
            let _ =
                writeln!(marks, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
        }
        let (x, y) = (end.0 + 8.0, end.1 + 4.0);
        format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n{marks}\
             <text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{colour}\">{}</text>\n",
            places.trim_end(),
            way.as_str(),
        )
    }
}

fn grid((from_x, from_y): (f64, f64), (to_x, to_y): (f64, f64)) -> String {
    format!(
        "<line x1=\"{from_x:.1}\" y1=\"{from_y:.1}\" x2=\"{to_x:.1}\" y2=\"{to_y:.1}\" stroke=\"#ddd\"/>\n"
    )
}

fn label((x, y): (f64, f64), anchor: &str, power: f64) -> String {
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">10<tspan dy=\"-5\" \
         font-size=\"9\">{power}</tspan></text>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::super::ratio::tests::took;
    use super::*;

    #[test]
    fn what_grows_in_proportion_is_a_straight_line() {
        let times = [10, 100, 1_000].map(|many| took(many, Way::Ours, 1, many * 7));
        let picture = plot("a work", "things", &times).unwrap();
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
        assert!(picture.contains("points=\"60.0,350.0 305.0,195.0 550.0,40.0\""), "{picture}");
        assert!(picture.contains(">ours</text>") && !picture.contains(">naive</text>"));
        assert!(picture.contains(">things</text>"), "{picture}");
        assert!(!picture.contains("NaN"));
    }

    #[test]
    fn two_amounts_are_no_growth() {
        let times = [10, 100].map(|many| took(many, Way::Ours, 1, many));
        assert_eq!(plot("a work", "things", &times), None);
    }
}
